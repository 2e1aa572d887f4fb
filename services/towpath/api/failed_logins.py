"""Requests with tokens that are not valid: each costs its client time, and the mesh is told of them.

No one finds a token of 256 random bits by trying. The delay keeps clients that try from using up the service,
and makes them stand out.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress

from towpath.api.problems import Refusal
from towpath.bus.authenticity import Refusals
from towpath.contracts.errors import ErrorCode
from towpath.contracts.events import SecurityRefused

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
FORGOTTEN_S = 60.0
"""An address without a further failure for this long begins again at the first delay."""

MOST_WAITING = 32
"""Refusals that may wait at once, over all addresses. Those beyond it are refused at once, with 429."""

MOST_ADDRESSES = 1000
"""Addresses that are remembered. Beyond it, the one that failed longest ago is forgotten."""

Tell = Callable[[SecurityRefused], Awaitable[None]]


class FailedLogins:
    """Delays the refusal of tokens by the client's address: twice as long for each failure."""

    def __init__(self, stop: asyncio.Event, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        """`stop` ends all delays, and `tell` publishes an event."""
        self._stop = stop
        self._clock = clock
        self._refusals = Refusals("api", tell, clock)
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._waiting = 0

    def forget(self, address: str | None) -> None:
        """Forget failures of an address that has shown a valid token."""
        self._failures.pop(address or "", None)

    def delay_s(self, address: str | None) -> float:
        """Count a failure of an address. Return the seconds that it costs."""
        failed, at = self._failures.pop(address or "", (0, 0.0))
        if self._clock() - at > FORGOTTEN_S:
            failed = 0
        self._failures[address or ""] = (failed + 1, self._clock())
        while len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)
        return min(FIRST_DELAY_S * 2 ** min(failed, 16), LONGEST_DELAY_S)

    async def wait(self, address: str | None) -> None:
        """Return when the client may be told of its failure. Raises `Refusal` (429) if too many wait."""
        delay_s = self.delay_s(address)
        await self._refusals.tell("login", "", who=address or "", why="the token is not valid")
        if self._waiting >= MOST_WAITING:
            raise Refusal(429, ErrorCode.BUSY, "too many requests with wrong tokens wait already")
        self._waiting += 1
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay_s)
        finally:
            self._waiting -= 1
