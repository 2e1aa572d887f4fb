"""Time in which the live page draws a change of a large mesh, in a real browser."""

from __future__ import annotations

import asyncio
import statistics
import sys
from pathlib import Path

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target
from measured_mesh import MeasuredMesh

sys.path.append(str(Path(__file__).parents[1]))

from running.browser import large_mesh

CHANGES = 15
DRAWN, TASK, WORST = "drawn ms", "longest task ms", "worst task ms"
TARGETS = {DRAWN: Target(at_most=75), TASK: Target(at_most=250), WORST: Target(at_most=2000)}
"""Medians, and the worst of all changes. An idle machine needs 9 ms, and no task is long enough to count."""


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Draw everything again for each change."""
    say(f"{CHANGES} changes of 100 jobs at 6 sites")
    seen = await asyncio.to_thread(large_mesh, CHANGES)
    figures = {
        DRAWN: round(statistics.median(seen["drawn"]), 1),
        TASK: round(statistics.median(seen["longest"]), 1),
        WORST: round(max(seen["longest"]), 1),
    }
    measured.cases.append(Case("100 jobs, 6 sites", figures, TARGETS, faults=0 if seen["jobs"] == 100 else 1))


BENCHMARK = Benchmark("page-drawing", "The live page draws changes of a large mesh", (), measure)
