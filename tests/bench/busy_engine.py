"""A job that works off a backlog as fast as its engine can, measured for some seconds at a time."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmark import Say
from faults_usage import Sample, cpu_between
from load_process import send
from measured_mesh import MeasuredMesh, until
from windowed import counting

from towpath.contracts.job import JobSpec
from towpath.contracts.site import SiteSpec

BATCH = 10_000
"""Events in a micro-batch: each turn of a setting has several micro-batches."""

BACKLOG = 60_000
"""Smallest number of waiting events while a turn is measured."""

WARM_UP = 150_000
"""Events. The first micro-batches compile and start workers; the last third says how fast the job is."""

MARGIN = 1.5
"""Factor by which a job may become faster and still have a backlog."""

LOOK_S, LOAD_S = 0.2, 120.0


@dataclass(frozen=True)
class Turn:
    """One setting in one round."""

    begin: float
    """Unix seconds at which a micro-batch was committed."""
    end: float
    events: int
    cpu_s: float

    @property
    def s_per_event(self) -> float:
        """Seconds for each event."""
        return (self.end - self.begin) / self.events

    @property
    def cpu_s_per_event(self) -> float:
        """CPU seconds of the engine with all its processes, for each event."""
        return self.cpu_s / self.events


@dataclass
class Engine:
    """A site's engine under measurement, with its one job."""

    mesh: MeasuredMesh
    job: JobSpec
    samples: list[Sample]
    rate: float = 0.0
    """Events per second, as last seen."""
    turns: defaultdict[str, list[Turn]] = field(default_factory=lambda: defaultdict(list))

    async def provide(self, seconds: float) -> None:
        """Make a backlog for this many seconds. Raises `LoadFailed`, `TimeoutError`."""
        waiting = await self.mesh.last_serial(self.job.site) - await self.mesh.processed(self.job)
        await self.send(int(seconds * MARGIN * self.rate) + BACKLOG - waiting)

    async def send(self, events: int) -> None:
        """Store more events. Raises `LoadFailed`, `TimeoutError`."""
        if events > 0:
            await send(self.mesh.load_spec(self.job.site, events=events, connections=2), LOAD_S)

    async def turn(self, setting: str, seconds: float) -> None:
        """Measure for this many seconds, from one committed micro-batch to another."""
        seen: list[tuple[float, int]] = []
        begin = time.time()
        while time.time() < begin + seconds:
            status = await self.mesh.status(self.job)
            if status is not None and status.committed_at is not None:
                at = status.committed_at.timestamp()
                if at >= begin and (not seen or at > seen[-1][0]):
                    seen.append((at, max(status.serials.values())))
            await asyncio.sleep(LOOK_S)
        if len(seen) < 2:
            raise RuntimeError(f"{setting}: {len(seen)} micro-batches in {seconds:g} s")
        (first, after), (last, through) = seen[0], seen[-1]
        used = cpu_between(self.samples, first, last)
        self.rate = (through - after) / (last - first)
        self.turns[setting].append(Turn(first, last, through - after, used))

    async def idle(self) -> None:
        """Wait until the backlog is gone. Raises `NotInTime`."""
        await processed(self, await self.mesh.last_serial(self.job.site))


async def processed(engine: Engine, serial: int) -> None:
    async def done() -> bool:
        return await engine.mesh.processed(engine.job) >= serial

    await until(done, LOAD_S, f"{engine.job.name} at {serial}")


async def deployed(mesh: MeasuredMesh, site: SiteSpec, samples: list[Sample]) -> Engine:
    after = await mesh.last_serial(site.name)
    job = await mesh.job(
        "counted", site.name, counting(1.0), after=after, trigger_s=0.0, max_events_per_batch=BATCH
    )
    return Engine(mesh, job, samples)


async def settled(engine: Engine, say: Say) -> None:
    """Let the first micro-batches pass unmeasured: they compile code and start workers."""
    say(f"{engine.job.site}: warming up")
    begin = await engine.mesh.last_serial(engine.job.site)
    await engine.send(WARM_UP)
    await processed(engine, begin + WARM_UP * 2 // 3)
    begun = time.monotonic()
    await engine.idle()
    engine.rate = WARM_UP / 3 / (time.monotonic() - begun)
    say(f"{engine.job.site}: about {engine.rate:,.0f} events/s")


async def by_turns(engines: Mapping[str, Engine], rounds: int, seconds: float, say: Say, what: str) -> None:
    """Measure engines one after the other, each under its name as setting, in another order each round."""
    for number in range(rounds):
        say(f"{what}, round {number + 1} of {rounds}")
        for setting in random.Random(number).sample(list(engines), len(engines)):
            engine = engines[setting]
            await engine.provide(seconds)
            await engine.turn(setting, seconds)
            await engine.idle()
