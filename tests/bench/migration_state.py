"""`handover` of a job with much state: costs that grow with the state, and costs that do not."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, NotInTime
from migration_course import Course, Runner, Wish
from migration_distinct import DistinctReports
from migration_measures import GAP, GAP_IN_INTERVALS, TOTAL, completeness, costs, ratio, raw
from migration_stateful import (
    CHANGE_S_A_MEGABYTE,
    CHANGED_SHARE,
    SHORTEST_CHANGE_S,
    StatefulJob,
    StatefulWindows,
)

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError

LOW_RATE, RATE, HIGH_RATE = 1_000, 5_000, 20_000
"""Events per second: two runs of a job leave two cores room, just fill them, ask for more than they have."""

SMALLEST, MIDDLE, LARGEST = 10, 36, 1_000
"""Megabytes of state."""


@dataclass(frozen=True)
class Point:
    """One point of the measurement: a rate and a size of state."""

    rate: int
    """Events per second."""
    megabytes: int
    workload: type[StatefulJob] = StatefulWindows

    @property
    def name(self) -> str:
        """Title of its column."""
        return f"{self.workload.prefix}, {self.megabytes:,} MB, {self.rate:,}/s"


_USUAL = (Point(RATE, SMALLEST), Point(RATE, MIDDLE), Point(RATE, 100), Point(HIGH_RATE, MIDDLE))
_DISTINCT = Point(RATE, SMALLEST, DistinctReports)

POINTS = {
    Scale.QUICK: (Point(RATE, SMALLEST),),
    Scale.DEFAULT: (*_USUAL, _DISTINCT, Point(RATE, 100, DistinctReports)),
    Scale.FULL: (
        *_USUAL,
        Point(RATE, LARGEST),
        *(_DISTINCT, Point(RATE, LARGEST, DistinctReports)),
        *(Point(LOW_RATE, SMALLEST, DistinctReports), Point(LOW_RATE, LARGEST, DistinctReports)),
    ),
}

NOTES = [
    f"results every second or oftener, while the state's other keys wait; {CHANGED_SHARE:.0%} of them change "
    f"within the first {SHORTEST_CHANGE_S:.0f} s of a migration ({LARGEST:,} MB: "
    f"{LARGEST * CHANGE_S_A_MEGABYTE:.0f} s)",
    f"`{StatefulWindows.prefix}`: Spark looks through all of the state in every micro-batch, for windows "
    "that can be closed; in the end all are, and the checker sees every one",
    f"`{DistinctReports.prefix}`: Spark looks up what comes, and nothing else, so what remains is the "
    "migration; in the end everything comes once more, and the checker sees what was forgotten",
    "the same changes also come once before the first migration: how long results pause for them alone",
    "first round: the whole checkpoint, while the job runs; later rounds: what had changed meanwhile; "
    "medians over the migrations",
]

MOVES = {Scale.QUICK: 1, Scale.DEFAULT: 2, Scale.FULL: 4}

AGAINST_SMALLEST = f"gap ÷ that at {SMALLEST} MB"
GAP_ALONE = "gap for the same changes alone, s"
LATER_SHARE = "later rounds, % of the state"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Fill the state, then move the job back and forth while results come and some keys change."""
    assert mesh is not None
    measured.upright = True
    measured.notes += NOTES
    wishes = [Wish(StrategyName.HANDOVER)] * MOVES[scale]
    if scale is not Scale.QUICK:
        say("warming up")
        await Runner(mesh, StatefulWindows(RATE, SMALLEST), wishes, lambda text: None).run()
    failures: list[str] = []
    smallest: dict[tuple[type[StatefulJob], int], Value] = {}
    for point in POINTS[scale]:
        say(point.name)
        workload = point.workload(point.rate, point.megabytes)
        try:
            course = await Runner(mesh, workload, wishes, say).run()
        except (TowpathError, NotInTime, RuntimeError) as error:
            failures.append(f"{point.name}: {error}")
            continue
        found = costs(course) | shipment(course, point.megabytes) | {"keys": workload.keys}
        found |= completeness(course) | {GAP_ALONE: gap_alone_s(course)}
        if point.megabytes == SMALLEST:
            smallest[point.workload, point.rate] = found[GAP]
        elif point.rate != HIGH_RATE:
            found[AGAINST_SMALLEST] = ratio(found[GAP], smallest.get((point.workload, point.rate)))
        measured.cases.append(Case(point.name, found, targets(point), course.faults))
        measured.raw[point.name] = raw(course)
    if failures:
        raise RuntimeError("; ".join(failures))


def targets(point: Point) -> dict[str, Target]:
    """Targets of a point; those at the high rate are only reported."""
    if point.rate == HIGH_RATE:
        return {}
    found = {GAP_IN_INTERVALS: Target(at_most=2), LATER_SHARE: Target(at_most=2)}
    if point.megabytes == MIDDLE:
        found[TOTAL] = Target(at_most=8)
    if point.megabytes == LARGEST:
        found[AGAINST_SMALLEST] = Target(at_most=1.5)
    return found


def gap_alone_s(course: Course) -> float | None:
    """The longest time without results while keys changed and nothing moved."""
    alone = course.changes_alone
    gap = None if alone is None else course.arrivals.largest_gap_s(*alone)
    return None if gap is None else rounded(gap)


def shipment(course: Course, megabytes: int) -> dict[str, Value]:
    """Return the bytes of the first round and of the later ones.

    The later ones are compared with the state. The first round back to a former site is small, too.
    """
    rounds = [m.view.figures.round_bytes for m in course.moves if m.completed and m.view.figures]
    shipped = [one for one in rounds if one]
    if not shipped:
        return {"first round, MB": None, "later rounds, MB": None, LATER_SHARE: None}
    first, later = median(one[0] for one in shipped), median(sum(one[1:]) for one in shipped)
    return {
        "rounds": median(len(one) for one in shipped),
        "first round, MB": rounded(first / 1e6, 2),
        "later rounds, MB": rounded(later / 1e6, 3),
        LATER_SHARE: rounded(100 * later / (megabytes * 1e6), 2),
    }


BENCHMARK = Benchmark("handover-state", "handover of much state", (EDGE, CLOUD), measure)
