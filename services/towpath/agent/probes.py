"""Measures the ways from this site to the hub and to the other sites."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import uniform

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Sample
from towpath.mesh.home import Home
from towpath.mesh.link_probe import LinkProbe
from towpath.mesh.state import MeshState
from towpath.telemetry.intervals import PROBE_INTERVAL_S

Store = Callable[[list[Sample]], Awaitable[None]]


class Probes:
    """Asks hub and sites, one after another, to send something back."""

    def __init__(self, bus: Bus, site: str, home: Home, store: Store) -> None:
        self._probe = LinkProbe(bus)
        self._site = site
        self._home = home
        self._store = store

    async def keep(self) -> None:
        """Measure all ways again and again, for ever. Never two at a time: one would slow the other."""
        # Sites that start together would measure each other's probes.
        await asyncio.sleep(uniform(0, PROBE_INTERVAL_S / 3))
        while True:
            for other in await self._others():
                samples = await self._probe.measure(other)
                if samples:
                    await self._store(samples)
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def _others(self) -> list[str]:
        """The hub, and the sites that the mesh has now."""
        try:
            state = await asyncio.to_thread(MeshState.load, self._home)
        except (TowpathError, OSError):
            return [HUB_SCOPE]
        return [HUB_SCOPE, *sorted(set(state.sites) - {self._site})]
