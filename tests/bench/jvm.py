"""CPU time of a windowed count by Java's compiler tiers, by Spark's code generation, and by rate.

`run.py --only jvm` measures all four settings, one engine after the other. `jvm.py --only NAME` measures one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from benchmark import EDGE, Benchmark, Say, Scale
from faults_usage import Family, Sample, cpu_between, watched
from figures import Case, Measured, Value, rounded
from load_process import load
from measured_mesh import MeasuredMesh, mesh_of, temporary_home
from windowed import counting

from towpath.contracts.job import JobSpec
from towpath.contracts.site import Compilation, EngineSpec, EngineStart
from towpath.mesh import lifecycle

RATES = (1_000.0, 20.0, 10_000.0, 50_000.0)
"""Events a second, in the order in which they are measured. A new engine begins with `RATES[0]`."""
TRIGGER_S, WINDOW_S = 1.0, 1.0

FIRST_S = 60.0
WARM_S, MEASURED_S = 25.0, 25.0
LOOK_S = 0.5

PER_CONNECTION = 25_000
"""Events a second that one connection of the generator surely sends."""

KEPT_UP = 0.95
"""Share of the stored events that a job must process to keep up: micro-batches end a little late."""

START, FIRST = "CPU s until ready", "CPU s at first"
BATCH, THOUSAND, CORES = "CPU ms a batch", "CPU ms per 1,000 events", "cores"
PROCESSED, STORED, KEEPS_UP = "processed/s", "stored/s", "keeps up"

FIRST_TIER = "-XX:TieredStopAtLevel=1"
BOTH_TIERS = "-XX:TieredStopAtLevel=4"

SETTINGS = {
    "first-tier": EngineSpec(compilation=Compilation.QUICK, java_options=FIRST_TIER),
    "first-tier-codegen": EngineSpec(compilation=Compilation.THOROUGH, java_options=FIRST_TIER),
    "both-tiers": EngineSpec(compilation=Compilation.QUICK, java_options=BOTH_TIERS),
    "both-tiers-codegen": EngineSpec(compilation=Compilation.THOROUGH, java_options=BOTH_TIERS),
}
"""Name → engine. The engine's options come last and win."""


@dataclass(frozen=True)
class Commit:
    """A job's progress when a micro-batch was committed."""

    at: float
    """Unix seconds."""
    batch: int
    events: int


async def measure(
    mesh: MeasuredMesh | None,
    scale: Scale,
    say: Say,
    measured: Measured,
    *,
    settings: Sequence[str] = tuple(SETTINGS),
) -> None:
    """Measure settings one after the other, each with a mesh and an engine of its own."""
    first_s, warm_s, seconds = (10.0, 5.0, 8.0) if scale is Scale.QUICK else (FIRST_S, WARM_S, MEASURED_S)
    measured.notes.append(
        f"CPU time of the engine with all of its processes. Each engine counts {RATES[0]:,.0f} events/s for "
        f"{first_s:.0f} s at first, and then each rate, in the order of the table: "
        f"{warm_s:.0f} s unmeasured, then {seconds:.0f} s measured, from one committed micro-batch to another"
    )
    for setting in settings:
        say(setting)
        site = EDGE.model_copy(
            update={"engine": SETTINGS[setting].model_copy(update={"start": EngineStart.ALWAYS})}
        )
        with temporary_home() as home:
            async with mesh_of(home, [site], say) as own:
                await _measure_setting(own, setting, (first_s, warm_s, seconds), say, measured)


async def _measure_setting(
    mesh: MeasuredMesh, setting: str, times_s: tuple[float, float, float], say: Say, measured: Measured
) -> None:
    first_s, warm_s, seconds = times_s
    engine = await _engine_pid(mesh)
    start_s = (await asyncio.to_thread(Family(engine).sample)).cpu_s
    async with watched(engine) as samples:
        job, spent_s = await _first(mesh, samples, first_s)
        figures: dict[str, Value] = {START: rounded(start_s), FIRST: rounded(spent_s)}
        measured.cases.append(Case(f"{setting}, start", figures))
        for rate in RATES:
            say(f"{setting}, {rate:,.0f} events/s")
            figures = await _cell(mesh, job, samples, rate, warm_s, seconds)
            measured.cases.append(Case(f"{setting}, {rate:,.0f}/s", figures))
    await mesh.remove(job)


async def _engine_pid(mesh: MeasuredMesh) -> int:
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    return next(p.pid for p in listed if p.name == f"{EDGE.name}-engine" and p.pid is not None)


async def _first(mesh: MeasuredMesh, samples: list[Sample], seconds: float) -> tuple[JobSpec, float]:
    """Deploy the job on an engine that has just started. Return it with the CPU seconds of its first time."""
    site = EDGE.name
    start = await mesh.last_serial(site)
    begun = time.time()
    async with load(mesh.load_spec(site, rate=RATES[0])) as sending:
        job = await mesh.job("jvm", site, counting(WINDOW_S), after=start, trigger_s=TRIGGER_S)
        await asyncio.sleep(begun + seconds - time.time())
        spent_s = cpu_between(samples, begun, begun + seconds)
        await sending.stop()
    return job, spent_s


async def _cell(
    mesh: MeasuredMesh, job: JobSpec, samples: list[Sample], rate: float, warm_s: float, seconds: float
) -> dict[str, Value]:
    connections = max(1, round(rate / PER_CONNECTION))
    async with load(mesh.load_spec(job.site, rate=rate, connections=connections)) as sending:
        await asyncio.sleep(warm_s)
        begun, stored = time.time(), await mesh.last_serial(job.site)
        commits = await _commits(mesh, job, seconds)
        stored_rate = (await mesh.last_serial(job.site) - stored) / (time.time() - begun)
        await sending.stop()
    spent_s = cpu_between(samples, commits[0].at, commits[-1].at)
    return cell_figures(commits, spent_s, stored_rate)


async def _commits(mesh: MeasuredMesh, job: JobSpec, seconds: float) -> list[Commit]:
    """Return the micro-batches that were seen committed within some seconds. Raises `RuntimeError`."""
    seen: list[Commit] = []
    begin = time.time()
    while time.time() < begin + seconds:
        status = await mesh.status(job)
        if status is not None and status.committed_at is not None and status.batch is not None:
            at = status.committed_at.timestamp()
            if at >= begin and (not seen or at > seen[-1].at):
                seen.append(Commit(at, status.batch, status.events))
        await asyncio.sleep(LOOK_S)
    if len(seen) < 2:
        raise RuntimeError(f"{job.name}: {len(seen)} micro-batches in {seconds:g} s")
    return seen


def cell_figures(commits: Sequence[Commit], spent_s: float, stored_rate: float) -> dict[str, Value]:
    """Return the figures of one setting at one rate.

    `spent_s` are the CPU seconds between the first and the last commit, `stored_rate` the events a second
    that were stored meanwhile.
    """
    first, last = commits[0], commits[-1]
    took_s, events = last.at - first.at, last.events - first.events
    rate = events / took_s
    return {
        BATCH: rounded(1000 * spent_s / max(last.batch - first.batch, 1)),
        THOUSAND: rounded(1e6 * spent_s / max(events, 1)),
        CORES: rounded(spent_s / took_s),
        PROCESSED: rounded(rate, 1),
        STORED: rounded(stored_rate, 1),
        KEEPS_UP: "yes" if rate >= KEPT_UP * stored_rate else "no",
    }


BENCHMARK = Benchmark("jvm", "CPU time by compiler tiers and code generation", (), measure, on_request=True)
PARTS = {name: Benchmark(name, BENCHMARK.title, (), partial(measure, settings=(name,))) for name in SETTINGS}

if __name__ == "__main__":
    from run import main

    sys.exit(main(every=PARTS, program="jvm.py", prefix="jvm-"))
