"""Delay until a loaded rule affects a running job, and until an unloaded one ceases to.

The rule emits a metric with some of the events that the job reads. A metric carries the time at which a
task emitted it: the first one shows when the rule took effect, the last one when it ceased.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median

from benchmark import EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from load_process import load
from measured_mesh import COMMAND_S, MeasuredMesh, until

from towpath.contracts.fault_commands import ListMetrics, LoadRules, MetricList, UnloadRules
from towpath.contracts.faults import Rule
from towpath.contracts.operators import Forward

RATE, EVERY = 500.0, 10
"""Events per second, and the number of events per metric: fifty metrics per second."""

FOLLOWED_S = 3.0
"""Longer than a rule needs to take effect or to cease: after it no more metrics arrive."""

METRIC = "reached"
RULE = Rule.model_validate(
    {
        "name": METRIC,
        "event": {"point": "source.read"},
        "every": EVERY,
        "actions": [{"fault": "emit", "parameters": {"metric": METRIC, "value": "1"}}],
    }
)
FELT, GONE, LONGEST = "felt after, s", "gone after, s", "the longest, s"
TARGET = Target(at_most=1.0)


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Load and unload the rule again and again while one job is under load."""
    assert mesh is not None
    measured.notes.append("medians over rounds, from the command to the time a task emitted a metric")
    rounds = {Scale.QUICK: 3, Scale.DEFAULT: 10, Scale.FULL: 40}[scale]
    job = await mesh.job("reached", EDGE.name, Forward(kind="forward"), after=0, trigger_s=0.0)
    felt: list[float] = []
    gone: list[float] = []
    async with load(mesh.load_spec(EDGE.name, rate=RATE)):
        for number in range(rounds + 1):
            came, went = await _turn(mesh)
            # The very first rule makes processes import the faults.
            if number:
                felt.append(came)
                gone.append(went)
            say(f"round {number} of {rounds}")
    await mesh.remove(job)
    for name, found in ((FELT, felt), (GONE, gone)):
        figures = {"median, s": rounded(median(found), 2), LONGEST: rounded(max(found), 2)}
        measured.cases.append(Case(name, figures, {LONGEST: TARGET}))
    measured.raw["rounds"] = {"felt": felt, "gone": gone}


async def _turn(mesh: MeasuredMesh) -> tuple[float, float]:
    """Return the seconds until a rule took effect, and until it ceased."""
    before = (await _heard(mesh, 0)).last
    loaded = time.time()
    await mesh.bus.request(LoadRules(rules=[RULE]), deadline_s=COMMAND_S)

    async def is_heard() -> bool:
        return bool((await _heard(mesh, before)).metrics)

    await until(is_heard, COMMAND_S, "a metric of the rule")
    await asyncio.sleep(FOLLOWED_S)
    unloaded = time.time()
    await mesh.bus.request(UnloadRules(names=[METRIC]), deadline_s=COMMAND_S)
    await asyncio.sleep(FOLLOWED_S)
    at = [kept.metric.at.timestamp() for kept in (await _heard(mesh, before)).metrics]
    return min(at) - loaded, max(0.0, max(at) - unloaded)


async def _heard(mesh: MeasuredMesh, after: int) -> MetricList:
    return await mesh.bus.request(ListMetrics(name=METRIC, after=after, limit=10_000), deadline_s=COMMAND_S)


BENCHMARK = Benchmark("reach", "how soon running jobs feel rules", (EDGE,), measure)
