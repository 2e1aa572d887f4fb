"""Jobs at one site that keep up, each with 20 events and a micro-batch every second."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from benchmark import EDGE, Benchmark, Say, Scale
from compositions_usage import KINDS, usage_of
from cost import CLEAN, MEMORY, SITE_CORES, memory_mb
from figures import Case, Measured, Target, rounded
from load_process import load
from measured_mesh import MeasuredMesh, until
from windowed import counting

from towpath.contracts.job import JobSpec

COUNTS = (5, 12, 20)
RATE, TRIGGER_S = 20.0, 1.0
WARM_S, MEASURED_S = 30.0, 30.0
FIRST_S = 120.0

SLOWEST_PACE = 0.9
"""Smallest share of its micro-batches with which a job keeps up."""
FARTHEST_S = 3.0
"""Longest time that a job may be behind the newest event: it waits for a trigger, and for its turn."""

KEEP_UP = "jobs that keep up"
TARGETS = {12: {KEEP_UP: Target(at_least=12, was="5")}}


@dataclass(frozen=True)
class Pace:
    """The progress of one job over some seconds."""

    batches: int
    behind_events: int
    """Events that it had not processed in the end."""

    def keeps_up(self, seconds: float) -> bool:
        """True if it had its micro-batches, and is not far behind the newest event."""
        enough = self.batches >= SLOWEST_PACE * seconds / TRIGGER_S
        return enough and self.behind_events <= FARTHEST_S * RATE


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Deploy more and more jobs, half of them `clean` and half windowed counts."""
    assert mesh is not None
    warm_s, seconds = (5.0, 10.0) if scale is Scale.QUICK else (WARM_S, MEASURED_S)
    measured.notes.append(
        f"by turns `clean` and a windowed count of the same {RATE:.0f} events/s; a job keeps up with "
        f"{SLOWEST_PACE:.0%} of its micro-batches, and at most {FARTHEST_S:.0f} s behind the newest event"
    )
    site = EDGE.name
    start, jobs = await mesh.last_serial(site), list[JobSpec]()
    async with load(mesh.load_spec(site, rate=RATE)) as sending:
        for count in COUNTS[:1] if scale is Scale.QUICK else COUNTS:
            say(f"{count} jobs")
            while len(jobs) < count:
                operator = counting(1.0) if len(jobs) % 2 else CLEAN
                job = await mesh.job("crowd", site, operator, after=start, trigger_s=TRIGGER_S)
                jobs.append(job)
            await _begun(mesh, jobs, start)
            await asyncio.sleep(warm_s)
            measured.cases.append(await _case(mesh, jobs, seconds))
        await sending.stop()
    for job in jobs:
        await mesh.remove(job)


async def _begun(mesh: MeasuredMesh, jobs: list[JobSpec], start: int) -> None:
    async def begun() -> bool:
        return all([await mesh.processed(job) > start for job in jobs])

    await until(begun, FIRST_S, "the first events of all jobs")


async def _case(mesh: MeasuredMesh, jobs: list[JobSpec], seconds: float) -> Case:
    batches, used = await _batches(mesh, jobs), await usage_of(mesh, EDGE.name)
    await asyncio.sleep(seconds)
    afterwards, usage = await _batches(mesh, jobs), await usage_of(mesh, EDGE.name)
    newest = await mesh.last_serial(EDGE.name)
    paces = [
        Pace(afterwards[job.name] - batches[job.name], newest - await mesh.processed(job)) for job in jobs
    ]
    figures = {
        KEEP_UP: sum(pace.keeps_up(seconds) for pace in paces),
        "slowest, micro-batches/s": rounded(min(pace.batches for pace in paces) / seconds),
        "farthest behind, s": rounded(max(pace.behind_events for pace in paces) / RATE),
        SITE_CORES: rounded(sum(usage[kind].cpu_s - used[kind].cpu_s for kind in KINDS) / seconds),
        MEMORY: memory_mb(usage),
    }
    return Case(f"{len(jobs)} jobs", figures, TARGETS.get(len(jobs), {}))


async def _batches(mesh: MeasuredMesh, jobs: list[JobSpec]) -> dict[str, int]:
    found = [(job.name, await mesh.status(job)) for job in jobs]
    return {name: 0 if status is None else status.batch or 0 for name, status in found}


BENCHMARK = Benchmark(
    "crowd", "jobs at one site, 20 events/s and a micro-batch a second each", (EDGE,), measure
)
