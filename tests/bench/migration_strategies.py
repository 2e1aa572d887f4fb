"""All strategies on the same job and load in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import migration_pictures
from benchmark import CLOUD, EDGE, Benchmark, Say, Scale
from figures import Case, Measured, Target, Value
from measured_mesh import MeasuredMesh, NotInTime
from migration_course import Course, Runner, Wish
from migration_measures import (
    GAP_IN_INTERVALS,
    TOTAL,
    against,
    carried,
    completeness,
    costs,
    flow,
    raw,
    resources,
)
from migration_workload import EventTimeWindows, ProcessingTimeWindows, Workload

from towpath.contracts.commands import ConsistencyCheck, StrategyName
from towpath.contracts.errors import TowpathError

RESTART, GENERAL = Wish(StrategyName.RESTART), Wish(StrategyName.GENERAL)
HANDOVER = Wish(StrategyName.HANDOVER)
PARALLEL = Wish(StrategyName.PARALLEL, ConsistencyCheck.SERIALS)
PARALLEL_THESIS = Wish(StrategyName.PARALLEL, ConsistencyCheck.RESULTS, 5)

TARGETS = {
    StrategyName.HANDOVER: {GAP_IN_INTERVALS: Target(at_most=2)},
    StrategyName.PARALLEL: {TOTAL: Target(at_most=8)},
}

REPETITIONS = {Scale.QUICK: 2, Scale.DEFAULT: 5, Scale.FULL: 20}
RATES = {Scale.QUICK: (1_000,), Scale.DEFAULT: (2_000,), Scale.FULL: (1_000, 2_000, 5_000)}
"""Events per second of the window job."""

PROCESSING_RATE = 100


@dataclass(frozen=True)
class _Job:
    """A job, and the strategies with which it moves."""

    name: str
    workload: Callable[[], Workload]
    wishes: tuple[Wish, ...]
    stateful: bool


def _jobs(scale: Scale) -> list[_Job]:
    windows = [
        _Job(
            f"window {rate:,}/s",
            lambda rate=rate: EventTimeWindows(rate),
            (GENERAL, RESTART, HANDOVER),
            stateful=True,
        )
        for rate in RATES[scale]
    ]
    processing = (GENERAL, RESTART, PARALLEL, PARALLEL_THESIS)
    name = f"processing_window {PROCESSING_RATE}/s"
    return [*windows, _Job(name, lambda: ProcessingTimeWindows(PROCESSING_RATE), processing, stateful=False)]


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure each job with each strategy, back and forth. A failure does not stop the others."""
    assert mesh is not None
    measured.upright = True
    measured.notes += [
        "total, downtime: the operation's own figures, median; largest gap: the longest time without results "
        "at the subscriber, over all migrations; usual interval: median between one window and the next",
        "latency: received less the storing of the newest event in the result; before and after: the "
        "seconds around each migration; lost, repeated, wrong, out of order: the checker, over all of it",
        "restart throws state away: what its window jobs lose is reported, and no fault",
    ]
    failures: list[str] = []
    for job in _jobs(scale):
        if scale is not Scale.QUICK:
            say(f"{job.name}: warming up")
            await Runner(mesh, job.workload(), [GENERAL] * 2, lambda text: None).run()
        failures += await _Strategies(mesh, job, REPETITIONS[scale], say, measured).measure()
    if failures:
        raise RuntimeError("; ".join(failures))


@dataclass
class _Strategies:
    """All strategies of one job."""

    mesh: MeasuredMesh
    job: _Job
    repetitions: int
    say: Say
    measured: Measured

    async def measure(self) -> list[str]:
        """Add cases, raw figures and pictures. Return the failures."""
        failures: list[str] = []
        courses: dict[str, Course] = {}
        reference: dict[str, Value] = {}
        for wish in self.job.wishes:
            name = title(wish)
            self.say(f"{self.job.name}: {name} × {self.repetitions}")
            wishes = [wish] * self.repetitions
            try:
                course = await Runner(self.mesh, self.job.workload(), wishes, self.say).run()
            except (TowpathError, NotInTime, RuntimeError) as error:
                failures.append(f"{self.job.name}, {name}: {error}")
                continue
            courses[name] = course
            found = costs(course)
            reference = found if wish is GENERAL else reference
            self._add(name, wish, course, {**found, **against(found, reference, "general's")})
        self._draw(courses)
        return failures

    def _add(self, name: str, wish: Wish, course: Course, found: dict[str, Value]) -> None:
        figures = found | flow(course) | carried(course) | resources(course) | completeness(course)
        loses = self.job.stateful and wish.strategy is StrategyName.RESTART
        case = f"{self.job.name}, {name}"
        targets = TARGETS.get(wish.strategy, {})
        self.measured.cases.append(Case(case, figures, targets, 0 if loses else course.faults))
        self.measured.raw[case] = raw(course)

    def _draw(self, courses: dict[str, Course]) -> None:
        if not courses:
            return
        stem = self.job.name.replace(",", "").replace("/s", "").replace(" ", "-")
        self.measured.pictures |= {
            f"{stem}-course": lambda path: migration_pictures.draw_courses(path, self.job.name, courses),
            f"{stem}-totals": lambda path: migration_pictures.draw_totals(path, self.job.name, courses),
        }


def title(wish: Wish) -> str:
    """A strategy with its setting, for people."""
    if wish.strategy is not StrategyName.PARALLEL:
        return wish.strategy.value
    setting = f", S {wish.factor}" if wish.check is ConsistencyCheck.RESULTS else ""
    return f"parallel ({wish.check}{setting})"


BENCHMARK = Benchmark("strategies", "every strategy, same job and load", (EDGE, CLOUD), measure)
