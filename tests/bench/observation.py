"""Cost of observation for a job at full load: a site that measures itself and one that does not, by turns.

Both work off the same backlogs with a windowed count. CPU is that of the site's agent, engine and server.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from statistics import fmean

from benchmark import Benchmark, Say, Scale
from busy_engine import Engine, by_turns, deployed, settled
from faults_ratios import dearer
from faults_usage import watched
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh

from towpath.contracts.site import EngineSpec, Observation, SiteSpec
from towpath.mesh import lifecycle

ENGINE = EngineSpec(spark_master="local[2]")
OBSERVED = SiteSpec(name="observed", engine=ENGINE)
UNOBSERVED = SiteSpec(name="unobserved", engine=ENGINE, observation=Observation(enabled=False))

THROUGHPUT, COST = "events/s", "CPU µs an event"
SLOWER, MORE_CPU = "slower, %", "more CPU, %"
LIMIT = Target(at_most=2.0)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure both sites by turns."""
    assert mesh is not None
    rounds, seconds = {Scale.QUICK: (3, 4.0), Scale.DEFAULT: (12, 5.0), Scale.FULL: (40, 6.0)}[scale]
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    agents = {process.name: process.pid for process in listed if process.pid is not None}
    async with AsyncExitStack() as stack:
        engines: dict[str, Engine] = {}
        for site in (OBSERVED, UNOBSERVED):
            samples = await stack.enter_async_context(watched(agents[f"{site.name}-agent"]))
            engines[site.name] = await deployed(mesh, site, samples)
            await settled(engines[site.name], say)
        await by_turns(engines, rounds, seconds, say, "with and without observation")
        for engine in engines.values():
            await mesh.remove(engine.job)
    _report(measured, engines[OBSERVED.name], engines[UNOBSERVED.name])


def _report(measured: Measured, observed: Engine, unobserved: Engine) -> None:
    measured.notes.append(
        "throughput and CPU of a windowed count with a backlog, CPU of agent, engine and server together; "
        "ratios are medians over rounds, intervals 95 %, by bootstrap over rounds"
    )
    without = unobserved.turns[UNOBSERVED.name]
    for engine, setting in ((unobserved, UNOBSERVED.name), (observed, OBSERVED.name)):
        turns = engine.turns[setting]
        figures: dict[str, Value] = {
            THROUGHPUT: rounded(sum(t.events for t in turns) / sum(t.end - t.begin for t in turns), 0),
            COST: rounded(1e6 * fmean(turn.cpu_s_per_event for turn in turns), 2),
            "rounds": len(turns),
        }
        if engine is observed:
            for title, of in ((SLOWER, "s_per_event"), (MORE_CPU, "cpu_s_per_event")):
                ratio = dearer([getattr(t, of) for t in turns], [getattr(t, of) for t in without])
                figures[title] = round(ratio.percent, 2)
                figures[f"{title}: 95 %"] = f"{ratio.low:+.2f} … {ratio.high:+.2f}"
        targets = {SLOWER: LIMIT, MORE_CPU: LIMIT} if engine is observed else {}
        measured.cases.append(Case(setting, figures, targets))
        measured.raw[setting] = [vars(turn) for turn in turns]


BENCHMARK = Benchmark("observation", "what observation costs a busy job", (OBSERVED, UNOBSERVED), measure)
