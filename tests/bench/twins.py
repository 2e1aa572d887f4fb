"""IoTCloud's fluctuation: an engine is slow now and then, and a twin at another site hides it.

The engine of the first site is stopped for seconds, at the same moments in each course, as if its machine
swapped or a neighbour took its cores. The job passes events on, so each event has one result: late ones, lost
ones and repeated ones show in the output itself.
"""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import psutil
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from flow import DRAIN_S, warm
from load_process import load
from measured_mesh import ATTEMPT_S, COMMAND_S, MeasuredMesh
from migration_usage import cpu_s, watched
from natsrpy.js import JetStreamMessage
from verdicts import passed

from towpath.contracts.commands import AbortMigration, MigrateJob, StrategyName
from towpath.contracts.data_plane import output_stream
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import Forward
from towpath.processes import find

SECONDS = {Scale.QUICK: 30.0, Scale.DEFAULT: 240.0, Scale.FULL: 900.0}
RATE = 200.0
TRIGGER_S = 0.5
GOAL_S = 2.0
"""A result that takes longer has missed its deadline."""

GAP_S, LONGEST_STOP_S = 8.0, 4.0
"""Mean time between two stops (exponential), and the longest stop (even from half a second)."""

SEED = 7
P99, CPU = "p99, s", "CPU, ms per event"
TARGETS = {P99: Target(at_most=GOAL_S)}


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure the job without stops, with stops, and with stops and a twin."""
    assert mesh is not None
    measured.notes += [
        f"{RATE:g} events/s, trigger {TRIGGER_S:g} s; the engine of {EDGE.name} stops every {GAP_S:g} s on "
        f"average, for up to {LONGEST_STOP_S:g} s; the twin is at {CLOUD.name}",
        "latency: stored in OUT less stored in IN. IoTCloud reports no figures for replicas; its SLAM runs "
        "have tails (p99) of 1.2 to 4 medians, which differ between equal runs",
    ]
    seconds = SECONDS[scale]
    alone = 0.0
    for name, stops, twin in (("calm", False, False), ("alone", True, False), ("with a twin", True, True)):
        say(f"{name}, {seconds:.0f} s")
        case, cores = await _course(mesh, name, seconds, stops=stops, twin=twin)
        if stops and not twin:
            alone = cores
        if twin:
            case.figures["CPU beside alone"] = rounded(cores / alone, 2)
        measured.cases.append(case)


async def _course(
    mesh: MeasuredMesh, name: str, seconds: float, *, stops: bool, twin: bool
) -> tuple[Case, float]:
    """Return a course's figures, and the cores that both sites used."""
    site = EDGE.name
    start = await mesh.last_serial(site)
    job = await mesh.job("twin", site, Forward(), after=start, trigger_s=TRIGGER_S)
    await warm(mesh, job)
    async with load(mesh.load_spec(site, rate=RATE)) as running:
        operation = await _twin(mesh, job) if twin else None
        after = await mesh.last_serial(site)
        begun = time.time()
        async with watched(mesh) as usage, _stopping(mesh, stops=stops):
            await asyncio.sleep(seconds)
        interval = [(begun, time.time())]
        cores = sum(cpu_s(usage[each], interval) for each in (EDGE.name, CLOUD.name)) / seconds
        await running.stop()
    through = await mesh.last_serial(site)
    await mesh.counted(job, through - start, DRAIN_S)  # What has not arrived by then is lost.
    if operation is not None:
        end = AbortMigration(operation=operation)
        await mesh.bus.request(end, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)
    verdict = await passed(mesh, job, start, through, measured_after=after)
    wins = await _wins(mesh, job)
    await mesh.remove(job)
    late = verdict.latencies_s
    figures: dict[str, Value] = {
        "median, s": rounded(verdict.percentile(50)),
        P99: rounded(verdict.percentile(99)),
        "p99.9, s": rounded(verdict.percentile(99.9)),
        "longest, s": rounded(float(late.max())),
        f"later than {GOAL_S:g} s, %": rounded(100 * float((late > GOAL_S).mean()), 2),
        CPU: rounded(1e3 * cores / RATE),
        "won by the twin, %": rounded(100 * wins, 1) if twin else None,
        "lost": verdict.lost,
        "repeated": verdict.duplicated,
    }
    return Case(name, figures, TARGETS if twin else {}, verdict.lost + verdict.duplicated), cores


async def _twin(mesh: MeasuredMesh, job: JobSpec) -> str:
    command = MigrateJob(job=job.name, to=CLOUD.name, strategy=StrategyName.TWIN)
    return (await mesh.bus.request(command, deadline_s=COMMAND_S, attempt_s=ATTEMPT_S)).operation


async def _wins(mesh: MeasuredMesh, job: JobSpec) -> float:
    """Return the share of results that the other site has stored."""

    def count(page: list[JetStreamMessage]) -> tuple[int, int]:
        mark = f'"site":"{CLOUD.name}"'.encode()
        return len(page), sum(mark in message.payload for message in page)

    kept, last = await mesh.stored(job.output_site, output_stream(job.name))
    pages = await mesh.read(job.output_site, output_stream(job.name), last - kept, last, count)
    return sum(won for _, won in pages) / max(1, sum(total for total, _ in pages))


@asynccontextmanager
async def _stopping(mesh: MeasuredMesh, *, stops: bool) -> AsyncIterator[None]:
    """Stop the first site's engine now and then inside the context."""
    task = asyncio.create_task(_stop(mesh)) if stops else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def _stop(mesh: MeasuredMesh) -> None:
    chance = random.Random(SEED)
    while True:
        await asyncio.sleep(chance.expovariate(1 / GAP_S))
        held = [*_engine(mesh)]
        try:
            for process in held:
                process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(0.5, LONGEST_STOP_S))
        finally:
            for process in held:
                with suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)


def _engine(mesh: MeasuredMesh) -> Iterator[psutil.Process]:
    """Yield the engine's processes: driver, JVM and workers."""
    record = find(mesh.home.run, f"{EDGE.name}-engine")
    if record is not None:
        engine = psutil.Process(record.pid)
        yield from (engine, *engine.children(recursive=True))


BENCHMARK = Benchmark("twins", "an engine that stops now and then, and a twin", (EDGE, CLOUD), measure, True)
