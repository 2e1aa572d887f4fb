"""Bandwidth as a token bucket: a byte may pass for every token, and tokens come at a constant rate."""

from __future__ import annotations

import asyncio

from towpath.proxy.weather import Weather

BURST_S = 0.05
"""What a link that was idle may send at once, in seconds of its bandwidth. Also the largest piece that
passes whole: small enough that a slow link is slow all the time and not in bursts."""


class TokenBucket:
    """One direction of a link, shared by all of its connections."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._rate = weather.now.bandwidth_bytes_per_s
        self._tokens = 0.0
        self._filled_at = 0.0

    def largest_piece(self, limit: int) -> int:
        """How many bytes to read at once, at most `limit`, so that the next piece waits only shortly."""
        rate = self._weather.now.bandwidth_bytes_per_s
        return limit if rate is None else max(1, min(limit, int(rate * BURST_S)))

    async def take(self, amount: int) -> None:
        """Wait until `amount` bytes may pass."""
        # Tokens are taken first and waited for afterwards: so those that wait at the same time share
        # the rate, and a piece that is larger than the bucket passes, too.
        self._fill()
        self._tokens -= amount
        while (rate := self._weather.now.bandwidth_bytes_per_s) is not None and self._tokens < 0:
            await self._weather.changed(within_s=-self._tokens / rate)
            self._fill()

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        rate = self._weather.now.bandwidth_bytes_per_s
        if rate != self._rate or rate is None:
            # Debts of a slower time are forgiven, or a link that is restored would stay slow.
            self._rate, self._tokens = rate, 0.0
        else:
            self._tokens = min(rate * BURST_S, self._tokens + rate * (now - self._filled_at))
        self._filled_at = now
