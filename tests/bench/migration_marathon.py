"""Many migrations in a row, back and forth under load: nothing may add up."""

from __future__ import annotations

from statistics import median

from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, rounded
from measured_mesh import MeasuredMesh
from migration_course import Runner, Wish
from migration_measures import DISORDERED, LOST, REPEATED, WRONG, completeness, costs, ratio, raw, totals_s
from migration_workload import EventTimeWindows

from towpath.contracts.commands import StrategyName

MIGRATIONS = {Scale.QUICK: 3, Scale.DEFAULT: 10, Scale.FULL: 50}
RATE = 2_000
NONE = Target(at_most=0)
TARGETS = {"rolled back": NONE, LOST: NONE, REPEATED: NONE, WRONG: NONE, DISORDERED: NONE}
ENDS = 3
"""Number of migrations at either end to compare, if there are enough."""


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure all migrations of one job under one load."""
    assert mesh is not None
    wishes = [Wish(StrategyName.HANDOVER)] * MIGRATIONS[scale]
    measured.upright = True
    measured.notes.append("last ÷ first: medians of total time of up to three migrations at either end")
    course = await Runner(mesh, EventTimeWindows(RATE), wishes, say).run()
    totals = totals_s([course])
    ends = min(ENDS, len(totals) // 2)
    drift = ratio(median(totals[-ends:]), median(totals[:ends])) if ends else None
    figures = {**costs(course), "last ÷ first": rounded(drift, 2), **completeness(course)}
    name = f"{len(wishes)} × handover, window {RATE:,}/s"
    measured.cases.append(Case(name, figures, TARGETS, course.faults))
    measured.raw[name] = raw(course)


BENCHMARK = Benchmark("marathon", "handovers in a row, under load", (EDGE, CLOUD), measure)
