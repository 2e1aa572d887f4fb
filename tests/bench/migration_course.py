"""One job under load that moves again and again, seen from outside by a subscriber at its output."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from benchmark import CLOUD, EDGE, Say
from load import LoadReport
from load_process import load
from measured_mesh import MeasuredMesh, until
from migration_arrivals import Arrivals, Interval, arrivals_of, recorded
from migration_usage import Usage, watched
from migration_workload import Workload
from subscription import subscription

from towpath.checker.verdict import Verdict
from towpath.contracts.commands import ConsistencyCheck, OperationState, OperationView, StrategyName
from towpath.contracts.job import JobSpec

CATCH_UP_S = 120.0
REPORT_S = 60.0
PATIENCE_S = 300.0
"""Time limit of a migration that does not wait for windows to end."""

PATIENCE_WINDOWS = 32
"""Additional windows for a migration that waits: the mesh itself gives up after 30."""

SETTLE_EVENTS_S = 3.0
"""Seconds' worth of events that a job may be behind when it moves, its window aside."""


@dataclass(frozen=True)
class Wish:
    """A migration to run: strategy and settings."""

    strategy: StrategyName
    check: ConsistencyCheck = ConsistencyCheck.SERIALS
    factor: int | None = None


@dataclass(frozen=True)
class Move:
    """A migration that has ended, well or not."""

    wish: Wish
    view: OperationView

    @property
    def interval(self) -> Interval:
        """Begin and end of the migration, Unix seconds."""
        assert self.view.ended_at is not None
        return self.view.begun_at.timestamp(), self.view.ended_at.timestamp()

    @property
    def completed(self) -> bool:
        """True if the job moved."""
        return self.view.state is OperationState.COMPLETED and self.view.figures is not None

    def between(self, first: str, last: str) -> Interval | None:
        """Return the interval from the end of one step to the begin of another; None if either is missing."""
        at = {(entry.step, entry.phase): entry.at.timestamp() for entry in self.view.journal}
        begin, end = at.get((first, "confirmed")), at.get((last, "begun"))
        return None if begin is None or end is None else (begin, end)


@dataclass(frozen=True)
class Course:
    """Observations of a course."""

    job: JobSpec
    size_s: float
    moves: list[Move]
    arrivals: Arrivals
    verdict: Verdict
    usage: Usage
    loaded: Interval
    """Interval in which events came."""
    sent: LoadReport
    """Report of the main load."""
    changes_alone: Interval | None = None
    """Interval in which the job stayed, but got the additional load that it gets while it moves."""

    @property
    def during(self) -> list[Interval]:
        """Intervals of the migrations."""
        return [move.interval for move in self.moves]

    @property
    def quiet(self) -> list[Interval]:
        """Intervals before the first, between them, and after the last: one more than migrations."""
        first = self.arrivals.received[0] if len(self.arrivals.received) else self.loaded[1]
        begins = [min(float(first), self.loaded[1]), *(end for _, end in self.during)]
        return list(zip(begins, [*(begin for begin, _ in self.during), self.loaded[1]], strict=True))

    @property
    def before(self) -> list[Interval]:
        """The later half of the interval before each."""
        return [((begin + end) / 2, end) for begin, end in self.quiet[:-1]]

    @property
    def after(self) -> list[Interval]:
        """The earlier half of the interval after each."""
        return [(begin, (begin + end) / 2) for begin, end in self.quiet[1:]]

    @property
    def faults(self) -> int:
        """Number of results that are lost, repeated, wrong or out of order."""
        verdict = self.verdict
        return verdict.lost + verdict.duplicated + verdict.wrong + verdict.unexpected + verdict.out_of_order


@dataclass
class Runner:
    """Runs a course."""

    mesh: MeasuredMesh
    workload: Workload
    wishes: Sequence[Wish]
    say: Say
    _moves: list[Move] = field(default_factory=list)

    async def run(self) -> Course:
        """Deploy the job, load and move it, wait for all results, judge them, and remove the job.

        Raises `TowpathError` if the mesh refuses, `NotInTime` if the job falls behind permanently.
        """
        after = await self.mesh.last_serial(EDGE.name)
        job = await self.workload.start(self.mesh, after)
        try:
            return await self._observed(job, after)
        finally:
            await self.mesh.remove(job)

    async def _observed(self, job: JobSpec, after: int) -> Course:
        mesh, keep = self.mesh, self.mesh.home.root / f"{job.name}.results"
        topic = job.output.topic
        async with AsyncExitStack() as stack:
            subscriber = await stack.enter_async_context(subscription(mesh, EDGE.name, topic, keep))
            usage = await stack.enter_async_context(watched(mesh))
            specs = self.workload.loads(mesh)
            begun = time.time()
            running = [await stack.enter_async_context(load(spec)) for spec in specs]
            await self._settled(job)
            changes_alone = await self._changes_alone(job)
            for wish in self.wishes:
                await self._move(job, wish)
            loaded = (begun, time.time())
            sent = [await one.stop() for one in running]
            await self.workload.close(mesh, job, after)
            await subscriber.report(await mesh.results(job), REPORT_S)
        observations = await asyncio.to_thread(recorded, keep, topic)
        verdict = await asyncio.to_thread(self.workload.judged, job, observations)
        keep.unlink()
        return Course(
            job=job,
            size_s=self.workload.size_s,
            moves=self._moves,
            arrivals=await asyncio.to_thread(arrivals_of, observations),
            verdict=verdict,
            usage=usage,
            loaded=loaded,
            sent=sent[0],
            changes_alone=changes_alone,
        )

    async def _changes_alone(self, job: JobSpec) -> Interval | None:
        if not self.workload.shows_changes_alone:
            return None
        begun = time.time()
        await self.workload.while_moving(self.mesh)
        await self._settled(job)
        return begun, time.time()

    async def _move(self, job: JobSpec, wish: Wish) -> None:
        at = EDGE.name if not self._moves else _where(self._moves[-1].view)
        to = CLOUD.name if at == EDGE.name else EDGE.name
        migration = asyncio.create_task(self._migrated(job, to, wish), name=f"move {job.name}")
        beside = asyncio.create_task(self.workload.while_moving(self.mesh), name=f"beside {job.name}")
        try:
            view = await migration
        finally:
            for task in (migration, beside):
                task.cancel()
            await asyncio.gather(migration, beside, return_exceptions=True)
        self._moves.append(Move(wish, view))
        self.say(f"{wish.strategy}, {at} → {to}: {view.state}{_cost(view)} {view.note}".rstrip())
        if view.state not in (OperationState.COMPLETED, OperationState.ROLLED_BACK):
            raise RuntimeError(f"migration {view.operation} is {view.state}: {view.note}")
        await self._settled(job)

    async def _migrated(self, job: JobSpec, to: str, wish: Wish) -> OperationView:
        within_s = PATIENCE_S
        if wish.strategy is StrategyName.PARALLEL:
            within_s += PATIENCE_WINDOWS * self.workload.size_s
        return await self.mesh.migrate(
            job, to, wish.strategy, check=wish.check, factor=wish.factor, within_s=within_s
        )

    async def _settled(self, job: JobSpec) -> None:
        """Wait until the job has processed new events, is not far behind, and was seen for a while with
        results that came at least twice.
        """
        worth = int((SETTLE_EVENTS_S + self.workload.size_s) * self.workload.rate)
        begun = await self.mesh.last_serial(EDGE.name)
        least = begun + int(self.workload.settle_s * self.workload.rate)
        results = {await self.mesh.results(job)}

        async def fresh() -> bool:
            results.add(await self.mesh.results(job))
            last = await self.mesh.last_serial(EDGE.name)
            done = await self.mesh.processed(job)
            return len(results) > 2 and last >= least and done > begun and done >= last - worth

        within_s = CATCH_UP_S + self.workload.settle_s + 2 * self.workload.size_s
        await until(fresh, within_s, f"{job.name} within {worth} events of the newest")


def _where(view: OperationView) -> str | None:
    return view.target if view.state is OperationState.COMPLETED else view.source


def _cost(view: OperationView) -> str:
    return "" if view.figures is None else f" in {view.figures.total_s:.1f} s"
