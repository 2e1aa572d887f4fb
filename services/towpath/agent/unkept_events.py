"""Tell of events that devices published and that IN does not keep.

They came with QoS 0: nats-server passes such an event on and stores it nowhere. Or IN refused them, and their
devices got no acknowledgement. So a stream of one message counts everything that arrives, and the difference
to IN is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from nats.errors import Error as NatsError

from towpath.contracts.data_plane import ARRIVED_STREAM, IN_STREAM
from towpath.contracts.errors import TowpathError
from towpath.contracts.events import EventsNotKept
from towpath.contracts.message import Event
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0

LOOKS = 3
"""Events that had arrived so many looks ago should be kept by now: they are stored a moment later."""


class Shortfall:
    """The difference between two counters that are read one after the other."""

    def __init__(self) -> None:
        self._begin: tuple[int, int] | None = None
        self._arrivals: deque[int] = deque(maxlen=LOOKS)
        self._told = 0

    def grown(self, arrived: int, kept: int) -> int:
        """Take a look at both. Return how many more events are missing than were told before."""
        if self._begin is None or arrived < self._arrivals[-1]:
            # The server has started again, and counts arrivals from 0.
            self._begin, self._told = (arrived, kept), 0
            self._arrivals.clear()
        self._arrivals.append(arrived)
        if len(self._arrivals) < LOOKS:
            return 0
        more = max(0, (self._arrivals[0] - self._begin[0]) - (kept - self._begin[1]) - self._told)
        self._told += more
        return more


class UnkeptEvents:
    """Looks at the site's streams every few seconds."""

    def __init__(self, streams: SiteStreams, publish: Callable[[Event], Awaitable[None]]) -> None:
        self._streams = streams
        self._publish = publish
        self._shortfall = Shortfall()

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except (TowpathError, NatsError, OSError, TimeoutError) as error:
                log.debug("the streams cannot be compared: %s", error)

    async def look(self) -> None:
        """Publish an event if more events are missing than before."""
        site = self._streams.site
        arrived = (await self._streams.view(site, ARRIVED_STREAM)).last
        missing = self._shortfall.grown(arrived, (await self._streams.view(site, IN_STREAM)).last)
        if missing:
            log.warning("%d events are not kept: they came with QoS 0, or were not acknowledged", missing)
            await self._publish(EventsNotKept(site=site, events=missing))
