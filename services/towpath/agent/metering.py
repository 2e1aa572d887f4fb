"""Measure the site every two seconds, and store samples of its engines. Queries are answered from these."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import uniform
from time import time

from towpath.agent.engine_measures import SiteMeasures
from towpath.agent.job_figures import JobFigures
from towpath.agent.jobs import Jobs
from towpath.agent.stream_figures import StreamFigures, streams_at
from towpath.agent.traffic import Traffic
from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import ReadMetrics, Sample, SeriesList
from towpath.contracts.site import PowerSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.link_probe import LinkProbe
from towpath.mesh.state import MeshState
from towpath.processes import PidRecord, find
from towpath.tasks import to_the_end
from towpath.telemetry.intervals import INTERVAL_S, PROBE_INTERVAL_S, samples_of
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.process_figures import MachineFigures, ProcessFigures, battery_charge

log = logging.getLogger(__name__)

Source = Callable[[], Awaitable[list[Sample]]]

SOURCE_S = 5.0
"""Deadline for one source, so that the samples of others need not wait for it."""


class Metering:
    """Asks its sources for samples, and keeps them in the site's store."""

    def __init__(
        self,
        site: str,
        store: MetricStore,
        sources: Iterable[Source],
        see: Callable[[list[Sample]], None] = lambda _: None,
    ) -> None:
        """`see` gets all samples, too."""
        self.site = site
        self._see = see
        self._store = store
        self._sources = list(sources)

    async def keep(self) -> None:
        """Measure and store at every interval, until cancelled. Failures do not end it."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self.take()
            # After a round that took too long, missed rounds are left out.
            await asyncio.sleep(max(INTERVAL_S / 4, INTERVAL_S - (loop.time() - begun)))

    async def take(self) -> None:
        """Measure and store once."""
        found = await asyncio.gather(*(_asked(source) for source in self._sources))
        await self.add([sample for samples in found for sample in samples])

    async def add(self, samples: list[Sample]) -> None:
        """Store samples. They are lost if the disk refuses them, because nothing else may wait for it."""
        self._see(samples)
        try:
            # The thread goes on when its task is cancelled, and must not find the store closed.
            await to_the_end(asyncio.to_thread(self._store.add, samples))
        except sqlite3.Error as error:
            log.warning("%d samples were lost: %s", len(samples), error)

    async def read(self, command: ReadMetrics) -> SeriesList:
        """Answer a query with the site's series."""
        return SeriesList(series=await asyncio.to_thread(self._store.read, command, self.site))


async def _asked(source: Source) -> list[Sample]:
    try:
        async with asyncio.timeout(SOURCE_S):
            return await source()
    except Exception as error:
        # After any failure, the other sources are still measured, and this one again in the next round.
        log.warning("a measurement failed: %s: %s", type(error).__name__, error)
        return []


def sources(
    bus: Bus, spec: SiteSpec, home: Home, jobs: Jobs, children: Callable[[], Sequence[str]]
) -> list[Source]:
    """Return all measurements of a site. `children` are the processes that the agent keeps running now."""
    site = spec.name
    streams, of_jobs = StreamFigures(), JobFigures(site, jobs)
    engines = SiteMeasures(bus, site, jobs.engines.names)
    machine = MachineFigures(home.site(site), lambda: _charge(spec.power))
    processes, traffic = ProcessFigures(), Traffic(bus.connection)

    async def storage() -> list[Sample]:
        states = await streams_at(bus.connection, site)
        values = await of_jobs.values(states)
        return [*_all("stream", streams.values(states)), *_all("job", values)]

    async def usage() -> list[Sample]:
        names = [f"{site}-agent", *children()]
        used = await asyncio.to_thread(_usage, home, names, processes)
        return _all("process", {name.removeprefix(f"{site}-"): values for name, values in used.items()})

    async def wires() -> list[Sample]:
        seen = await traffic.look()
        users = {"nats": "nats", **{name: f"{site}.{name}" for name in ("agent", "engine")}}
        return _all("process", {name: seen[user] for name, user in users.items() if user in seen})

    async def surroundings() -> list[Sample]:
        return samples_of("site", time(), await asyncio.to_thread(machine.look))

    return [storage, usage, wires, surroundings, engines.new]


def _charge(power: PowerSpec) -> float | None:
    if not power.battery:
        return None
    return battery_charge(None if power.charge_file is None else Path(power.charge_file))


def _all(kind: str, values: Mapping[str, Mapping[str, float]]) -> list[Sample]:
    at = time()
    return [s for name, found in values.items() for s in samples_of(f"{kind}:{name}", at, found)]


def _usage(home: Home, names: Iterable[str], figures: ProcessFigures) -> dict[str, dict[str, float]]:
    """Return the use of resources by the live processes with these names. Blocks."""
    records: dict[str, PidRecord] = {}
    for name in names:
        record = find(home.run, name)
        if record is not None:
            records[name] = record
    used = figures.look({name: record.pid for name, record in records.items()})
    return {name: {**values, "process.restarts": records[name].restarts} for name, values in used.items()}


Store = Callable[[list[Sample]], Awaitable[None]]

SITES_IN_A_ROUND = 16
"""If each round had all pairs of sites, the hub's work would grow with the square of their number."""


def in_turn(others: Sequence[str], number: int) -> list[str]:
    """Return the sites to measure in the round of this number: all, or as many as a round has, in turn."""
    begin = number * SITES_IN_A_ROUND % max(len(others), 1)
    return [*others[begin:], *others[:begin]][:SITES_IN_A_ROUND]


class Probes:
    """Asks the hub and other sites, one after another, to send something back."""

    def __init__(self, bus: Bus, site: str, home: Home, store: Store) -> None:
        self._probe = LinkProbe(bus)
        self._site = site
        self._home = home
        self._store = store

    async def keep(self) -> None:
        """Measure latency and bandwidth to the hub and other sites, until cancelled.

        Links are measured one at a time, because two measurements would slow each other.
        """
        # A random pause: sites that start together would otherwise measure each other's probes.
        await asyncio.sleep(uniform(0, PROBE_INTERVAL_S / 3))
        for number in itertools.count():
            for other in [HUB_SCOPE, *in_turn(await self._others(), number)]:
                samples = await self._probe.measure(other)
                if samples:
                    await self._store(samples)
            await asyncio.sleep(PROBE_INTERVAL_S)

    async def _others(self) -> list[str]:
        """Return the other sites that the mesh has now."""
        try:
            state = await asyncio.to_thread(MeshState.load, self._home)
        except (TowpathError, OSError):
            return []
        return sorted(set(state.sites) - {self._site})
