"""`handover` of a job with much state: what grows with the state, and what does not."""

from __future__ import annotations

from statistics import median

from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, NotInTime
from migration_course import Course, Runner, Wish
from migration_measures import GAP, GAP_IN_INTERVALS, TOTAL, completeness, costs, ratio, raw
from migration_stateful import CHANGE_S, CHANGED_SHARE, StatefulWindows

from towpath.contracts.commands import StrategyName
from towpath.contracts.errors import TowpathError

RATE, HIGH_RATE = 5_000, 20_000
SMALLEST, MIDDLE, LARGEST = 10, 36, 1_000
"""Megabytes of state."""

POINTS = {
    Scale.QUICK: ((RATE, SMALLEST),),
    Scale.DEFAULT: ((RATE, SMALLEST), (RATE, MIDDLE), (RATE, 100), (HIGH_RATE, MIDDLE)),
    Scale.FULL: ((RATE, SMALLEST), (RATE, MIDDLE), (RATE, 100), (RATE, LARGEST), (HIGH_RATE, MIDDLE)),
}
"""(events per second, megabytes)."""

MOVES = {Scale.QUICK: 1, Scale.DEFAULT: 2, Scale.FULL: 4}

AGAINST_SMALLEST = f"gap ÷ that at {SMALLEST} MB"
LATER_SHARE = "later rounds, % of the state"


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Fill the state, then move the job back and forth while results come and some keys change."""
    assert mesh is not None
    measured.upright = True
    measured.notes += [
        f"results of ten keys every second while the state's other keys wait; {CHANGED_SHARE:.0%} of them "
        f"change within the first {CHANGE_S:.0f} s of a migration; in the end all windows close, and the "
        "checker sees every one",
        "first round: the whole checkpoint, while the job runs; later rounds: what had changed meanwhile; "
        "medians over the migrations",
    ]
    failures: list[str] = []
    smallest: Value = None
    for rate, megabytes in POINTS[scale]:
        name = f"{megabytes:,} MB, {rate:,}/s"
        say(name)
        workload = StatefulWindows(rate, megabytes)
        try:
            wishes = [Wish(StrategyName.HANDOVER)] * MOVES[scale]
            course = await Runner(mesh, workload, wishes, say).run()
        except (TowpathError, NotInTime, RuntimeError) as error:
            failures.append(f"{name}: {error}")
            continue
        found = costs(course) | shipment(course, megabytes) | {"keys": workload.keys} | completeness(course)
        if (rate, megabytes) == (RATE, SMALLEST):
            smallest = found[GAP]
        elif rate == RATE:
            found[AGAINST_SMALLEST] = ratio(found[GAP], smallest)
        measured.cases.append(Case(name, found, targets(rate, megabytes), course.faults))
        measured.raw[name] = raw(course)
    if failures:
        raise RuntimeError("; ".join(failures))


def targets(rate: int, megabytes: int) -> dict[str, Target]:
    """Targets of a point; those at the high rate are only reported."""
    if rate != RATE:
        return {}
    found = {GAP_IN_INTERVALS: Target(at_most=2), LATER_SHARE: Target(at_most=2)}
    if megabytes == MIDDLE:
        found[TOTAL] = Target(at_most=8)
    if megabytes == LARGEST:
        found[AGAINST_SMALLEST] = Target(at_most=1.5)
    return found


def shipment(course: Course, megabytes: int) -> dict[str, Value]:
    """Bytes of the first round and of the later ones. The latter are compared with the state: the first round
    back to a site where that was before is small, too."""
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
