"""Measures the ways from this site to the hub and to the other sites."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import uniform

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import HUB_SCOPE
from towpath.contracts.metrics import Echo, EchoAnswer, Sample
from towpath.faults.clock import real_time
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.telemetry.intervals import PROBE_INTERVAL_S
from towpath.telemetry.link_figures import measured
from towpath.telemetry.samples import samples_of

log = logging.getLogger(__name__)

ANSWER_S = 2.0
"""For one message there and back. What takes longer is no sample: the other side may be cut off."""

Store = Callable[[list[Sample]], Awaitable[None]]


class Probes:
    """Asks hub and sites, one after another, to send something back."""

    def __init__(self, bus: Bus, site: str, home: Home, store: Store) -> None:
        self._bus = bus
        self._site = site
        self._home = home
        self._store = store

    async def keep(self) -> None:
        """Measure all ways again and again, for ever. Never two at a time: one would slow the other."""
        # Sites that start together would measure each other's probes.
        await asyncio.sleep(uniform(0, PROBE_INTERVAL_S / 3))
        while True:
            for other in await self._others():
                samples = await self.probe(other)
                if samples:
                    await self._store(samples)
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def probe(self, other: str) -> list[Sample]:
        """Samples of the way to a site or the hub; none when it does not answer in time."""

        async def send(payload: str) -> EchoAnswer:
            return await self._bus.request(Echo(site=other, payload=payload), deadline_s=ANSWER_S)

        try:
            values = await measured(send)
        except (TowpathError, NatsError, OSError) as error:
            log.debug("no measure of the way to %s: %s", other, error)
            return []
        return samples_of(f"link:{other}", real_time(), values)

    async def _others(self) -> list[str]:
        """The hub, and the sites that the mesh has now."""
        try:
            state = await asyncio.to_thread(MeshState.load, self._home)
        except (TowpathError, OSError):
            return [HUB_SCOPE]
        return [HUB_SCOPE, *sorted(set(state.sites) - {self._site})]


async def echo(command: Echo) -> EchoAnswer:
    """See `Echo`."""
    return EchoAnswer(payload=command.payload)
