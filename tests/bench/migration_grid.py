"""`parallel` over rates, windows and synchronisation factors: thesis, Tables 6.3 to 6.5, 6.9 and 6.10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

import migration_pictures
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, NotInTime
from migration_course import Course, Move, Runner, Wish
from migration_measures import TOTAL, completeness, largest_gap_s, ratio, raw
from migration_overhead import measure_overhead
from migration_strategies import title
from migration_workload import ProcessingTimeWindows

from towpath.contracts.commands import ConsistencyCheck, StrategyName
from towpath.contracts.errors import TowpathError

SERIALS = Wish(StrategyName.PARALLEL, ConsistencyCheck.SERIALS)
HEAT_FACTOR = 30

RATES = (50, 100, 200, 400, 800, 1_600)
SIZES_S = (1.0, 2.0, 5.0, 10.0, 15.0)
FACTORS = (0, 1, 2, 5, 10)
"""The grid of Tables 6.3 to 6.5."""

HEAT_RATES = (100, 1_000, 5_000, 10_000, 20_000, 50_000)
HEAT_SIZES_S = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0)
"""The grid of Table 6.10."""

SHORT, LONG = (100, 2.0), (100, 15.0)
"""Rate and window of the points that have targets."""

INDEPENDENT = "total ÷ that at 2 s"
NOT_LONGER = Target(at_most=1.5)
"""A total that does not depend on the window, up to chance."""


def by_results(*factors: int) -> tuple[Wish, ...]:
    """The thesis's check with these synchronisation factors."""
    return tuple(Wish(StrategyName.PARALLEL, ConsistencyCheck.RESULTS, factor) for factor in factors)


Points = Sequence[tuple[tuple[int, float], tuple[Wish, ...]]]
"""((rate, window), the migrations there, one after the other)."""


def points(scale: Scale) -> Points:
    """Return the points to measure."""
    if scale is Scale.QUICK:
        return [(SHORT, (SERIALS, *by_results(5)))]
    if scale is Scale.DEFAULT:
        return [
            (SHORT, (SERIALS, *by_results(5))),
            (LONG, (SERIALS, *by_results(5))),
            ((400, 2.0), (SERIALS, *by_results(5))),
        ]
    return [((rate, size), (SERIALS, *by_results(*FACTORS))) for rate in RATES for size in SIZES_S]


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure the grid, then the cost of synchronisation; with `--full` the heat map."""
    assert mesh is not None
    measured.notes += [
        "total: median of one migration there and one back; offset: events by which the source was ahead "
        "when results became consistent",
        "a migration whose results do not become consistent within 30 windows is rolled back by the mesh: "
        "a finding about that S, and no fault",
    ]
    grid = _Grid(mesh, say, measured)
    for (rate, size_s), wishes in points(scale):
        await grid.point(rate, size_s, [wish for wish in wishes for _ in (CLOUD, EDGE)])
    grid.failures += await measure_overhead(mesh, scale, say, measured)
    if scale is Scale.FULL:
        await _heat_maps(grid)
    if grid.failures:
        raise RuntimeError("; ".join(grid.failures))


@dataclass
class _Grid:
    """Points measured so far."""

    mesh: MeasuredMesh
    say: Say
    measured: Measured
    totals: dict[tuple[int, float, Wish], float | None] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    async def point(self, rate: int, size_s: float, wishes: Sequence[Wish]) -> None:
        """Run one job through its migrations, one after the other. Add a case for each different wish."""
        name = f"{rate:,}/s × {size_s:g} s"
        self.say(name)
        try:
            course = await Runner(self.mesh, ProcessingTimeWindows(rate, size_s), wishes, self.say).run()
        except (TowpathError, NotInTime, RuntimeError) as error:
            self.failures.append(f"{name}: {error}")
            return
        # The verdict covers the whole course: its faults are counted with its first case.
        faults = course.faults
        for wish in dict.fromkeys(wishes):
            moves = [move for move in course.moves if move.wish == wish]
            self.totals[rate, size_s, wish] = total = median_total_s(moves)
            figures = {TOTAL: rounded(total), **self._compared(rate, size_s, wish), **_found(course, moves)}
            case = Case(f"{name}, {title(wish)}", figures, targets(rate, size_s, wish), faults)
            self.measured.cases.append(case)
            faults = 0
        self.measured.raw[name] = raw(course)

    def _compared(self, rate: int, size_s: float, wish: Wish) -> dict[str, Value]:
        if size_s == SHORT[1]:
            return {}
        reference = self.totals.get((rate, SHORT[1], wish))
        return {INDEPENDENT: ratio(self.totals[rate, size_s, wish], reference)}


def targets(rate: int, size_s: float, wish: Wish) -> dict[str, Target]:
    """Targets of one point of the grid."""
    if (rate, size_s) == SHORT and wish in by_results(5):
        return {TOTAL: Target(at_most=8)}
    if (rate, size_s) == LONG and wish == SERIALS:
        return {TOTAL: Target(at_most=10), INDEPENDENT: NOT_LONGER}
    return {}


def median_total_s(moves: Sequence[Move]) -> float | None:
    """The median total time; none if none was completed."""
    totals = [move.view.figures.total_s for move in moves if move.completed and move.view.figures]
    return median(totals) if totals else None


def _found(course: Course, moves: Sequence[Move]) -> dict[str, Value]:
    offsets = [
        abs(move.view.figures.offset)
        for move in moves
        if move.view.figures and move.view.figures.offset is not None
    ]
    return {
        "rolled back": sum(not move.completed for move in moves),
        "largest offset, events": max(offsets, default=None),
        "largest gap of the course, s": rounded(largest_gap_s(course)),
        **completeness(course),
    }


async def _heat_maps(grid: _Grid) -> None:
    wishes = (SERIALS, *by_results(HEAT_FACTOR))
    for rate in HEAT_RATES:
        for size_s in HEAT_SIZES_S:
            await grid.point(rate, size_s, wishes)
    for wish in wishes:
        totals = {(rate, size): value for (rate, size, one), value in grid.totals.items() if one == wish}
        name = f"parallel, check {wish.check}" + (f", S {HEAT_FACTOR}" if wish != SERIALS else "")
        grid.measured.pictures[f"heat-map-{wish.check}"] = partial(
            migration_pictures.draw_heat_map,
            title=name,
            rates=HEAT_RATES,
            sizes_s=HEAT_SIZES_S,
            totals=totals,
        )


BENCHMARK = Benchmark(
    "parallel-grid", "parallel: rates × windows × synchronisation factors", (EDGE, CLOUD), measure
)
