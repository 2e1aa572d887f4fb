"""The cost of a micro-batch and of an event at a site, steadily, and the memory that its processes hold."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from benchmark import EDGE, Benchmark, Say, Scale
from compositions_usage import KINDS, Usage, usage_of
from figures import Case, Measured, Target, Value, rounded
from load_process import load
from measured_mesh import MeasuredMesh, until
from windowed import counting

from towpath.contracts.operators import Chain, Clean, FieldRule, FieldType, Operator, Window

ENGINE = "engine"

WARM_S, MEASURED_S = 60.0, 60.0
FIRST_S = 60.0
"""Time for a job's first micro-batches."""

BATCH, THOUSAND, CORES, MEMORY = "CPU ms a batch", "CPU ms per 1,000 events", "cores", "PSS, MB"
SITE_CORES = "site's cores"
"""Of all processes of the site: engine, agent and broker."""

CLEAN = Clean(
    fields={
        "sensor": FieldRule(type=FieldType.STRING, pattern="s[0-9]+"),
        "n": FieldRule(type=FieldType.LONG, minimum=0),
        "value": FieldRule(type=FieldType.DOUBLE, minimum=-100, maximum=3000),
        "at": FieldRule(type=FieldType.TIMESTAMP),
    }
)
WINDOW: Window = counting(1.0)

BOTH = Chain(steps=[CLEAN, WINDOW])
AS_JOBS, AS_CHAIN = (CLEAN, WINDOW), (BOTH,)

CASES: tuple[tuple[str, tuple[Operator, ...], float, float, dict[str, Target]], ...] = (
    (
        "windowed count, 20 events every 0.5 s",
        (WINDOW,),
        40.0,
        0.5,
        {BATCH: Target(at_most=190, was="363–550")},
    ),
    ("clean, 20 events every 0.5 s", (CLEAN,), 40.0, 0.5, {BATCH: Target(at_most=110, was="250")}),
    (
        "windowed count, 1,000 events every second",
        (WINDOW,),
        1_000.0,
        1.0,
        {THOUSAND: Target(at_most=230, was="463")},
    ),
    (
        "windowed count, 5,000 events every second",
        (WINDOW,),
        5_000.0,
        1.0,
        {THOUSAND: Target(at_most=60, was="116")},
    ),
    (
        "clean and windowed count as two jobs, 1,000 events every second",
        AS_JOBS,
        1_000.0,
        1.0,
        {MEMORY: Target(at_most=900, was="1,400")},
    ),
    (
        "clean and windowed count as a chain, 1,000 events every second",
        AS_CHAIN,
        1_000.0,
        1.0,
        {SITE_CORES: Target(at_most=0.40, was="1.1")},
    ),
)
"""Name, operators of jobs that read each other, events a second, seconds between micro-batches, targets."""


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Run each job alone under its load: what its engine uses once the job has run for a while."""
    assert mesh is not None
    warm_s, seconds = (5.0, 10.0) if scale is Scale.QUICK else (WARM_S, MEASURED_S)
    measured.notes.append(
        f"CPU time of the engine with all of its processes over {seconds:.0f} s, from {warm_s:.0f} s after "
        "the job's first micro-batch; memory at the end: of engine, agent and server"
    )
    idle = {MEMORY: Target(at_most=250, was="1,400")}
    measured.cases.append(Case("no job", {MEMORY: memory_mb(await usage_of(mesh, EDGE.name))}, idle))
    for name, operators, rate, trigger_s, targets in CASES:
        say(name)
        figures = await _cost(mesh, operators, rate, trigger_s, warm_s, seconds)
        measured.cases.append(Case(name, figures, targets))


async def _cost(
    mesh: MeasuredMesh,
    operators: tuple[Operator, ...],
    rate: float,
    trigger_s: float,
    warm_s: float,
    seconds: float,
) -> dict[str, Value]:
    site = EDGE.name
    start, jobs = await mesh.last_serial(site), []
    for operator in operators:
        reads = jobs[-1] if jobs else None
        after = start if reads is None else 0
        jobs.append(await mesh.job("cost", site, operator, after=after, trigger_s=trigger_s, reads=reads))
    job = jobs[0]

    async def reached() -> tuple[int, int]:
        status = await mesh.status(job)
        return (0, 0) if status is None else (status.batch or 0, status.events)

    async def begun() -> bool:
        return (await reached())[0] > 1

    async with load(mesh.load_spec(site, rate=rate)) as sending:
        await until(begun, FIRST_S, f"the first micro-batches of {job.name}")
        await asyncio.sleep(warm_s)
        before, used = await reached(), await usage_of(mesh, EDGE.name)
        await asyncio.sleep(seconds)
        after, usage = await reached(), await usage_of(mesh, EDGE.name)
        await sending.stop()
    for written in reversed(jobs):
        await mesh.remove(written)
    spent_s = usage[ENGINE].cpu_s - used[ENGINE].cpu_s
    batches, events = after[0] - before[0], after[1] - before[1]
    return {
        BATCH: rounded(1000 * spent_s / max(batches, 1)),
        THOUSAND: rounded(1e6 * spent_s / max(events, 1)),
        CORES: rounded(spent_s / seconds),
        SITE_CORES: rounded(sum(usage[kind].cpu_s - used[kind].cpu_s for kind in KINDS) / seconds),
        "events/s": rounded(events / seconds),
        MEMORY: memory_mb(usage),
    }


def memory_mb(usage: Mapping[str, Usage]) -> float | None:
    """The memory of a site's processes; pages that they share count once."""
    return rounded(sum(usage[kind].proportional_mb for kind in KINDS if kind in usage))


BENCHMARK = Benchmark("cost", "what a micro-batch, an event and a site cost", (EDGE,), measure)
