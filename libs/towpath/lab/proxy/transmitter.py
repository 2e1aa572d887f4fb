"""Bandwidth: what enters a link leaves it one byte after the other, at a constant rate."""

from __future__ import annotations

import asyncio

from towpath.lab.proxy.weather import Weather

AHEAD_S = 0.05
"""For how long there may be something to send already, before more is taken from the senders. As a network
card's queue it keeps the link busy when this process comes late; what is small waits no longer than that
behind what is large."""

PIECE_S = 0.005
"""The largest piece, in seconds of the bandwidth: a piece arrives as a whole, when its last byte does."""


class Transmitter:
    """One direction of a link, shared by all of its connections.

    It reckons when each piece has left, and waits for none: so no lateness of this process adds up, and no
    burst passes a link that was idle.
    """

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._rate = weather.now.bandwidth_bytes_per_s
        self._idle_at = 0.0
        """When everything has left, by the loop's clock."""

    def largest_piece(self, limit: int) -> int:
        """Return the number of bytes to read at once, at most `limit`."""
        rate = self._weather.now.bandwidth_bytes_per_s
        return limit if rate is None else max(1, min(limit, int(rate * PIECE_S)))

    async def ready(self) -> None:
        """Wait until more may be read for it."""
        while (left := self._left_s() - AHEAD_S) > 0:
            await self._weather.changed(within_s=left)

    def send(self, amount: int) -> float:
        """When `amount` bytes have left that enter now, by the loop's clock."""
        now = asyncio.get_running_loop().time()
        left_s = self._left_s()
        self._idle_at = now + left_s + (amount / self._rate if self._rate else 0.0)
        return self._idle_at

    def _left_s(self) -> float:
        """Until all has left that has entered, seconds."""
        rate = self._weather.now.bandwidth_bytes_per_s
        if rate != self._rate:
            # What a slower link was to send still is forgiven, or one that is restored would stay slow.
            self._rate, self._idle_at = rate, 0.0
        return max(0.0, self._idle_at - asyncio.get_running_loop().time())
