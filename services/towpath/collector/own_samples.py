"""Samples of the hub itself: of its processes, and of its links to the sites."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from time import time

from towpath.bus import Bus
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Sample
from towpath.mesh.home import Home
from towpath.mesh.link_probe import LinkProbe
from towpath.processes import listed
from towpath.telemetry.intervals import samples_of
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.process_figures import ProcessFigures

log = logging.getLogger(__name__)

OWN = "collector"
"""Name of this process. It knows the traffic of its own connection."""


class OwnSamples:
    """Adds samples to the hub's store."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store

    async def add(self, samples: list[Sample]) -> None:
        """Store samples at once. Raises the store's errors."""
        if samples:
            await asyncio.to_thread(self._store.add, samples)

    async def measure(self, measure: Callable[[], Awaitable[list[Sample]]], every_s: float) -> None:
        """Measure and store until cancelled. After a failure, as on a full disk, try again next time."""
        while True:
            try:
                await self.add(await measure())
            except Exception:
                log.exception("a measurement failed")
            await asyncio.sleep(every_s)


class HubLinks:
    """Measures the links to all sites by asking each to send something back."""

    def __init__(self, bus: Bus, sites: Callable[[], Iterable[str]]) -> None:
        self._probe = LinkProbe(bus)
        self._sites = sites
        """Blocks, because it reads the mesh's state."""

    async def measure(self) -> list[Sample]:
        """Return round trips and bandwidths of the sites that answer."""
        sites = await asyncio.to_thread(self._sites)
        return [sample for site in sites for sample in await self._probe.measure(site)]


class HubProcesses:
    """Measures the hub's processes."""

    def __init__(self, home: Home, bus: Bus) -> None:
        self._home = home
        self._bus = bus
        self._figures = ProcessFigures()

    async def measure(self) -> list[Sample]:
        """Return samples of all processes now."""
        used = await asyncio.to_thread(self._look)
        if OWN in used:
            stats = self._bus.connection.stats
            used[OWN]["process.network.received"] = float(stats["in_bytes"])
            used[OWN]["process.network.sent"] = float(stats["out_bytes"])
        at = time()
        return [s for name, values in used.items() for s in samples_of(f"process:{name}", at, values)]

    def _look(self) -> dict[str, dict[str, float]]:
        """Return values by process and metric. Blocks for some milliseconds."""
        living = [record for record in listed(self._home.run) if record.process is not None]
        # The sites' processes are roots, too. Otherwise they would count for those that started them.
        used = self._figures.look({record.name: record.pid for record in living})
        scopes = self._home.scopes_of(used)
        return {
            record.name: {**used[record.name], "process.restarts": float(record.restarts)}
            for record in living
            if scopes[record.name] == HUB_SCOPE
        }
