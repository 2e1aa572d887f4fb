"""A queue for one direction of one connection: in at one end, out at the other, in order."""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from towpath.contracts.links import LONGEST_DELAY_MS, LinkConditions, OneWay
from towpath.lab.proxy.weather import Weather

IN_FLIGHT_BYTES = 8 * 1024**2
"""Most that travels at the same time; then the sender is made to wait, like by a full TCP window. A
link of 100 ms passes 80 MB/s with it."""

PACKET_BYTES = 1460
"""TCP sends so much at once over Ethernet: it is lost, or arrives, together."""

MOST_RESENDS = 15
"""Linux gives a connection up after so many; then a link that loses everything is like one that is cut."""


@dataclass(frozen=True)
class Piece:
    """Bytes that were read at once, on their way."""

    data: bytes
    entered_at: float
    luck: float
    """Where in the jitter it lies, -1 to 1."""
    fate: float
    """Bad luck of its packets, 0 to 1: the higher, the more often some of them are lost."""
    left_at: float = 0.0
    """When its last byte has entered, at the bandwidth that held when the first one did."""
    bandwidth: int | None = None
    """The bandwidth at that moment."""

    def arrives_at(self, conditions: LinkConditions) -> float:
        """Return when its last byte comes out, if these conditions hold from now on."""
        held_up = conditions.bandwidth_bytes_per_s == self.bandwidth
        begins_at = max(self.entered_at, self.left_at) if held_up else self.entered_at
        return begins_at + self.delay_s(conditions)

    def delay_s(self, conditions: LinkConditions) -> float:
        """Return how long it travels under these conditions."""
        return (conditions.delay_ms + self.luck * conditions.jitter_ms) / 1000 + self._resending_s(conditions)

    def _resending_s(self, conditions: LinkConditions) -> float:
        """Until the last of its packets has passed: with a chance p of each loss, all n have passed after
        k resends with the chance (1 - p^(k+1))^n."""
        loss = conditions.loss_percent / 100
        packets = math.ceil(len(self.data) / PACKET_BYTES)
        resends = 0
        while resends < MOST_RESENDS and self.fate >= (1 - loss ** (resends + 1)) ** packets:
            resends += 1
        waits_ms = (min(conditions.resend_ms * 2**turn, LONGEST_DELAY_MS) for turn in range(resends))
        return sum(waits_ms) / 1000


class DelayLine:
    """A queue that keeps every piece for the delay of the link. One task puts, one gets."""

    def __init__(
        self, weather: Weather, in_flight: int = IN_FLIGHT_BYTES, ways: Collection[OneWay] = ()
    ) -> None:
        self._weather = weather
        self._ways = ways
        self._limit = in_flight
        self._pieces: deque[Piece] = deque()
        self._bytes = 0
        self._came = asyncio.Event()
        self._left = asyncio.Event()

    async def put(self, data: bytes, left_at: float = 0.0) -> None:
        """Send `data` on its way; waits while too much is in flight. Empty data is the end.

        `left_at` is when the last of it is on its way, by the loop's clock, as long as the bandwidth stays.
        """
        bandwidth = self._weather.now.bandwidth_bytes_per_s
        while self._bytes >= self._limit:
            self._left.clear()
            await self._left.wait()
        now = asyncio.get_running_loop().time()
        luck, fate = random.uniform(-1, 1), random.random()
        self._pieces.append(Piece(data, now, luck, fate, left_at, bandwidth))
        self._bytes += len(data)
        self._came.set()

    async def get(self) -> bytes:
        """Return what arrives next, when it arrives. Nothing arrives while the link is cut."""
        while not self._pieces:
            self._came.clear()
            await self._came.wait()
        await self._arrival(self._pieces[0])
        data = self._pieces.popleft().data
        self._bytes -= len(data)
        self._left.set()
        return data

    async def _arrival(self, piece: Piece) -> None:
        """Wait by the conditions of each moment, so that a change holds for what is under way, too."""
        loop = asyncio.get_running_loop()
        while True:
            await self._weather.passable(self._ways)
            left = piece.arrives_at(self._weather.now) - loop.time()
            if left <= 0:
                return
            await self._weather.changed(within_s=left)
