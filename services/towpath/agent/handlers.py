"""The site's answers to commands about its jobs.

Every handler may be interrupted at any line and called again. So it first records what must be done, and
looks at the present state before it does anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from nats.errors import Error as NatsError

from towpath.agent import mirror_watch
from towpath.agent.assignments import beginnings_of, going_on_after, held, owned
from towpath.agent.jobs import HALT_S, WHOLE_S, Jobs
from towpath.agent.reception import Reception
from towpath.agent.roles import START_S
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import AdjustmentLost
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus
from towpath.contracts.message import Event
from towpath.contracts.migration import RECONCILIATION, Paused
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import (
    CheckSpec,
    MeasureState,
    Recomputed,
    RecomputeWindow,
    ReportAssignment,
    ReportProgress,
    StartJob,
    StateSize,
    StopJob,
)
from towpath.operators.kind import kind_of
from towpath.streams.ownership import epoch_is_over
from towpath.tasks import NotInTime, until

log = logging.getLogger(__name__)

POLL_S = 0.1


async def drain(jobs: Jobs, assignment: Assignment, inputs: Collection[str], within_s: float) -> None:
    """Wait until the running job has processed all that these of its inputs hold now.

    Raises `TowpathError`: `deadline` when that takes longer, `failed` when the job does not run.
    """
    ends = {
        entry.name: (await jobs.streams.view(entry.origin, entry.stream)).last
        for entry in assignment.inputs
        if entry.name in inputs
    }
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while True:
        status = jobs.status(assignment)
        known = await asyncio.to_thread(jobs.position, assignment)
        left = {name: last - known.get(name, 0) for name, last in ends.items()}
        if all(events <= _never_taken(assignment) for events in left.values()):
            return
        if status.state in (JobState.FAILED, JobState.FENCED):
            raise TowpathError(ErrorCode.FAILED, f"{status.job} does not run: {status.error}", field="drain")
        if status.state is JobState.STARTING:
            # The engine has restarted. The loop that restores jobs leaves out a job that a command holds.
            with contextlib.suppress(TowpathError, NatsError):
                await jobs.run(assignment)
        if loop.time() > end:
            raise TowpathError(
                ErrorCode.DEADLINE,
                f"{status.job} has {sum(left.values())} events to process after {within_s:g} s",
                field="drain",
                value=True,
                allowed="false, or a later attempt",
            )
        await asyncio.sleep(POLL_S)


def _never_taken(assignment: Assignment) -> int:
    """Return events that may wait without end: a window by number of events runs only when it is full."""
    operator = assignment.spec.operator
    exact = kind_of(operator).batch_events(operator)
    return 0 if exact is None else exact - 1


class AgentHandlers:
    """One method per command."""

    def __init__(self, jobs: Jobs, reception: Reception, publish: Callable[[Event], Awaitable[None]]) -> None:
        self.jobs = jobs
        self.reception = reception
        self._publish = publish

    async def check_spec(self, command: CheckSpec) -> Done:
        """Make the engine build the job's plan."""
        # Settled first, so that the plan is the one that `start_job` will need.
        settled = await self.jobs.settle_beginnings(command.assignment)
        await self.jobs.engines.check(settled, self.jobs.store.checkpoint(settled))
        return Done()

    async def start_job(self, command: StartJob) -> Done:
        """Run a job here. If it has another assignment now, replace that."""
        wanted = command.assignment
        job = wanted.spec.name
        async with self.jobs.lock(job):
            known = self.jobs.assignments.get(job)
            adopted = False
            if known is None:
                adopt = command.operation.startswith(RECONCILIATION)
                adopted = await asyncio.to_thread(self.jobs.store.make_room, wanted, adopt=adopt)
            else:
                is_late, wanted = known.version > wanted.version, self._succeeding(wanted, known)
                if is_late and known.desired is DesiredState.RUNNING:
                    return Done()
                wanted = await self._with_adjustments_of(wanted, known)
            goes_on = adopted or (known is not None and known.generation >= wanted.generation)
            processed = self.jobs.position(wanted) if goes_on else {}
            assignment = await self.jobs.prepare_inputs(wanted, processed)
            if known is not None and known.spec.container != assignment.spec.container:
                # It has another engine, or one that is starting. Two must not write one checkpoint.
                await self.jobs.halt(known)
            if known is not None and known.generation < assignment.generation:
                await self._begin_generation(known, assignment)
            await self.jobs.keep_assignment(assignment)
            moved = known is not None and _origins(known) != _origins(assignment)
            if moved:
                # At once: the former site may return, and feed the mirror with other events.
                await mirror_watch.look(self.jobs)
            await self.jobs.run(assignment)
            if known is not None and moved:
                await self.jobs.drop_unread(known)
        await self.jobs.until_running(job, assignment.epoch, START_S)
        return Done()

    def _succeeding(self, wanted: Assignment, known: Assignment) -> Assignment:
        """Return the assignment that comes after `known`. Raises `TowpathError` (fenced)."""
        if known.epoch > wanted.epoch:
            raise epoch_is_over(f"{wanted.spec.name} at this site", wanted.epoch, known.epoch)
        if known.version > wanted.version:
            # A late repetition, or the registry has yet to adopt what the site has adjusted since.
            return owned(known)
        if known.generation == wanted.generation:
            # The checkpoint decides where it continues. `earliest` was settled when it began.
            return _with_beginnings_of(wanted, known)
        if known.generation > wanted.generation:
            # A change is undone. This site knows where the old job was, even if all others are out of reach.
            return going_on_after(wanted, self.jobs.position(wanted))
        return wanted

    async def _with_adjustments_of(self, wanted: Assignment, known: Assignment) -> Assignment:
        """Return the new assignment with the commands by which the site adjusted the job.

        A newer description that lacks adjustments of the site replaces them: the hub's change counts. That is
        told first, and told again if the agent dies before the assignment is written.
        """
        if known.adjustments > wanted.adjustments and known.spec != wanted.spec:
            job, site = known.spec.name, self.jobs.streams.site
            log.error("%s was adjusted here, and a change at the hub has replaced that: %s", job, known.spec)
            await self._publish(AdjustmentLost(job=job, site=site, epoch=wanted.epoch, lost=known.spec))
        return wanted.model_copy(update={"adjusted_by": known.adjusted_by})

    async def _begin_generation(self, known: Assignment, assignment: Assignment) -> None:
        """Give a new generation the state of the one before, or none.

        An earlier, undone change may have left another checkpoint of that number.
        """
        if assignment.derived is not None:
            await asyncio.to_thread(self.jobs.store.derive, known, assignment)
        else:
            await asyncio.to_thread(self.jobs.store.start_afresh, assignment)

    async def stop_job(self, command: StopJob) -> Paused:
        """Stop a job here and hold it, or forget it. A job that is not here counts as stopped."""
        job = command.job
        async with self.jobs.lock(job):
            assignment = self.jobs.assignments.get(job)
            if assignment is None:
                return Paused(serials={}, batch=None, last_processed_at=None)
            if command.epoch is not None and assignment.epoch > command.epoch:
                raise epoch_is_over(f"{job} at this site", command.epoch, assignment.epoch)
            await self.reception.close(job)
            names = [i.name for i in assignment.inputs] if command.drain else command.drain_inputs
            if names and assignment.desired is DesiredState.RUNNING:
                await drain(self.jobs, assignment, names, command.drain_s)
            await self.jobs.keep_assignment(held(assignment, None))
            stopping = self._halt_whole(assignment) if command.whole else self.jobs.halt(assignment, HALT_S)
            paused = await stopping
            if command.forget:
                await self.jobs.drop(assignment, forget=True, used_epoch=command.epoch)
            return paused

    async def _halt_whole(self, assignment: Assignment) -> Paused:
        """Stop a job so that it leaves no micro-batch unfinished.

        An engine that died in the middle of one has left it. Then the job runs once more, until that is
        finished. Raises `TowpathError` (failed) if one takes too long.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + WHOLE_S
        while True:
            paused = await self.jobs.halt(assignment, WHOLE_S)
            batch = await self.jobs.unfinished(assignment)
            if batch is None:
                return paused
            if loop.time() > end:
                raise TowpathError(
                    ErrorCode.FAILED,
                    f"micro-batch {batch} of {assignment.spec.name} was interrupted; it is repeated first",
                )
            log.info("micro-batch %d of %s is finished first", batch, assignment.spec.name)
            await self.jobs.run(assignment)
            with contextlib.suppress(NotInTime):
                await until(partial(self._is_whole, assignment), end - loop.time(), POLL_S)

    async def _is_whole(self, assignment: Assignment) -> bool:
        return await self.jobs.unfinished(assignment) is None

    async def report_progress(self, command: ReportProgress) -> JobStatus:
        """Return a job's progress from its engine, or from its checkpoint before the engine reports."""
        assignment = self.jobs.get(command.job)
        status = self.jobs.status(assignment)
        known = await asyncio.to_thread(self.jobs.position, assignment)
        times = await asyncio.to_thread(self.jobs.store.times, assignment)
        return status.model_copy(update={"serials": known | status.serials, "stored_at": times})

    async def report_assignment(self, command: ReportAssignment) -> Assignment:
        """Return a job as it is here."""
        return self.jobs.get(command.job)

    async def recompute_window(self, command: RecomputeWindow) -> Recomputed:
        """Make the engine compute a range of events as one window."""
        assignment = self.jobs.get(command.job)
        return await self.jobs.engines.recompute(assignment, command.after, command.through)

    async def measure_state(self, command: MeasureState) -> StateSize:
        """Return the size of the job's checkpoint."""
        return await asyncio.to_thread(self.jobs.store.measure, self.jobs.get(command.job))


def _origins(assignment: Assignment) -> list[str]:
    return [entry.origin for entry in assignment.inputs]


def _with_beginnings_of(assignment: Assignment, known: Assignment) -> Assignment:
    return going_on_after(assignment, beginnings_of(known))
