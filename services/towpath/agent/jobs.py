"""The site's jobs: keep those running that should run, after any failure."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from datetime import datetime

from nats.errors import Error as NatsError

from towpath.agent.artefacts import Unplaced
from towpath.agent.assignments import AssignmentStore
from towpath.agent.engines import Engines, engine_of
from towpath.contracts.engine import QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus
from towpath.contracts.migration import Paused
from towpath.streams.output_copies import OutputCopies
from towpath.streams.streams import SiteStreams
from towpath.tasks import NotInTime, until
from towpath.telemetry.tracing import untraced

log = logging.getLogger(__name__)

RECONCILE_S = 0.3
"""Between looks at the engine. It limits how long a restarted engine is idle."""

POLL_S = 0.05
HALT_S = 10.0
"""Time for the micro-batch under way to commit, before a halt interrupts it."""

WHOLE_S = 60.0
"""The same where an interrupted micro-batch would fail the operation.

A micro-batch that caught up with a backlog, and publishes over a slow link, takes this long."""


class Jobs:
    """All assignments of the site, and the loop that executes them."""

    def __init__(
        self,
        store: AssignmentStore,
        engines: Engines,
        streams: SiteStreams,
    ) -> None:
        self.store = store
        self.engines = engines
        self.streams = streams
        self.output_copies = OutputCopies(streams)
        self.assignments = store.load_all()
        self.adjusting: set[str] = set()
        """Jobs that are just being adjusted here: none may become the source of a migration meanwhile."""
        self._statuses: dict[str, JobStatus] = {}
        self._committed: dict[str, datetime] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._obstacles: dict[str, str] = {}
        """Job → the reason why it cannot be given to its engine now."""

    def lock(self, job: str) -> asyncio.Lock:
        """Return the lock that a command holds while it changes a job."""
        return self._locks.setdefault(job, asyncio.Lock())

    def get(self, job: str) -> Assignment:
        """Return the assignment of a job. Raises `TowpathError` (unknown job)."""
        try:
            return self.assignments[job]
        except KeyError:
            raise TowpathError(
                ErrorCode.UNKNOWN_JOB,
                f"{job} is not at {self.streams.site}",
                field="job",
                value=job,
                allowed=sorted(self.assignments),
            ) from None

    def statuses(self) -> list[JobStatus]:
        """Return the status of all jobs at the last look at the engine."""
        return [self.status(assignment) for assignment in self.assignments.values()]

    def status(self, assignment: Assignment) -> JobStatus:
        """Return the status of a job at the last look at the engine."""
        job = assignment.spec.name
        status = self._statuses.get(job)
        if status is not None and status.version == assignment.version and _should_run(assignment):
            return status
        return JobStatus(
            job=job,
            epoch=assignment.epoch,
            revision=assignment.revision,
            adjustments=assignment.adjustments,
            state=_WAITING[assignment.desired],
            error=self._obstacles.get(job),
        )

    async def keep(self) -> None:
        """Make what runs equal to what should run, until cancelled."""
        while True:
            try:
                await self._reconcile()
                await self.engines.tidy(self.assignments)
            except TowpathError as error:
                log.info("engine: %s", error)
            except Exception:
                log.exception("the next look tries again")  # Without looks, nothing here would be restarted.
            await asyncio.sleep(RECONCILE_S)

    async def _reconcile(self) -> None:
        listed = await self.engines.queries()
        self._take_in(listed)
        # First, because two engines that run one job would both write its checkpoint.
        await self._halt_strays(listed)
        for job, assignment in list(self.assignments.items()):
            status = self._statuses.get(job)
            if self.lock(job).locked() or not _should_run(assignment) or engine_of(assignment) not in listed:
                continue
            if status is None or status.version != assignment.version:
                async with self.lock(job):
                    if self.assignments.get(job) == assignment:
                        await self._run_if_placed(assignment)

    async def _run_if_placed(self, assignment: Assignment) -> None:
        """Run a job. If its code, an input or its checkpoint is out of reach, try again later.

        That keeps no other job from running. Raises `TowpathError` of an engine that would not run others,
        either.
        """
        job = assignment.spec.name
        try:
            await self.run(assignment)
        except Unplaced as error:
            self._note(job, error.detail.one_line())
        except (NatsError, OSError, ValueError) as error:
            self._note(job, f"{type(error).__name__}: {error}")
        else:
            self._obstacles.pop(job, None)

    def _note(self, job: str, why: str) -> None:
        if self._obstacles.get(job) != why:
            log.warning("%s does not run: %s", job, why)
        self._obstacles[job] = why

    async def _halt_strays(self, listed: Mapping[str, QueryList]) -> None:
        """Halt queries that no assignment asks for: a halt may have worked although its answer was lost."""
        for engine, queries in listed.items():
            for status in queries.queries:
                lock = self.lock(status.job)
                if not lock.locked() and not self._wanted(status.job, engine):
                    async with lock:
                        await self.engines.halt(engine, status.job, HALT_S)

    async def _look(self, assignment: Assignment) -> None:
        """Update the job's status now, if its engine answers. `keep` updates it in any case."""
        # Asked repeatedly, so it is not part of a trace.
        with contextlib.suppress(TowpathError, NatsError), untraced():
            self._take_in(await self.engines.queries(assignment))

    def _wanted(self, job: str, engine: str) -> bool:
        assignment = self.assignments.get(job)
        return assignment is not None and _should_run(assignment) and engine_of(assignment) == engine

    def _take_in(self, listed: Mapping[str, QueryList]) -> None:
        """Update the status of jobs whose engines answered. Others keep their last status."""
        silent = {n: s for n, s in self._statuses.items() if self._engine_of(n) not in (None, *listed)}
        answered = [
            status
            for engine, queries in listed.items()
            for status in queries.queries
            if self._engine_of(status.job) in (None, engine)
        ]
        self._statuses = silent | {status.job: status for status in answered}
        for status in answered:
            if status.committed_at is not None:
                self._committed[status.job] = status.committed_at

    def _engine_of(self, job: str) -> str | None:
        """Return the engine where the job should run, if the job is here."""
        assignment = self.assignments.get(job)
        return None if assignment is None else engine_of(assignment)

    async def keep_assignment(self, assignment: Assignment) -> None:
        """Record an assignment before it is executed. A standby that becomes anything else needs no copy."""
        known = self.assignments.get(assignment.spec.name)
        stays_standby = assignment.desired is DesiredState.STANDBY
        if known is not None and known.desired is DesiredState.STANDBY and not stays_standby:
            await self.output_copies.drop(known)
        await asyncio.to_thread(self.store.save, assignment)
        self.assignments[assignment.spec.name] = assignment

    async def settle_beginnings(self, assignment: Assignment) -> Assignment:
        """Set an open beginning of a new job to the oldest event that is stored now."""
        settled = []
        for entry in assignment.inputs:
            after = entry.after_serial
            if after is None:
                after = (await self.streams.view(entry.origin, entry.stream)).first - 1
            settled.append(entry.model_copy(update={"after_serial": after}))
        return assignment.model_copy(update={"inputs": settled})

    async def prepare_inputs(
        self, assignment: Assignment, after_serials: dict[str, int] | None = None
    ) -> Assignment:
        """Settle where the job begins, and mirror its inputs from other sites."""
        settled = await self.settle_beginnings(assignment)
        for entry in settled.inputs:
            begin = entry.after_serial or 0
            after = max((after_serials or {}).get(entry.name, begin), begin)
            await self.streams.mirrors.reach_back(entry, after)
        return settled

    async def run(self, assignment: Assignment) -> None:
        """Give a job to the engine."""
        for entry in assignment.inputs:
            await self.streams.mirrors.ensure(entry, self.position(assignment).get(entry.name))
        await self.engines.run(assignment, self.store.checkpoint(assignment))

    async def halt(self, assignment: Assignment, within_s: float = HALT_S) -> Paused:
        """Stop a job if it runs. Return its position by its checkpoint. See `HaltQuery` for `within_s`."""
        job = assignment.spec.name
        last = self._committed.get(job)
        # An engine that is starting runs nothing. Asking it would take as long as Spark's start.
        starting = self.engines.is_starting(assignment)
        paused = None if starting else await self._halted(assignment, within_s)
        if paused is None:
            paused = await asyncio.to_thread(self.store.paused, assignment)
        self._statuses.pop(job, None)
        return paused.model_copy(update={"last_processed_at": paused.last_processed_at or last})

    async def _halted(self, assignment: Assignment, within_s: float) -> Paused | None:
        """Return where the engine stopped the job. None if it does not run it."""
        try:
            return await self.engines.halt(engine_of(assignment), assignment.spec.name, within_s)
        except TowpathError as error:
            if error.detail.code is not ErrorCode.UNKNOWN_JOB:
                raise
            return None

    def position(self, assignment: Assignment) -> dict[str, int]:
        """Return input → last serial number processed, or where the job begins."""
        return self.store.position(assignment)

    async def unfinished(self, assignment: Assignment) -> int | None:
        """Return the micro-batch that a stopped job has begun and not committed."""
        checkpoint = self.store.checkpoint(assignment)
        return await asyncio.to_thread(self.store.checkpoints.unfinished_batch, checkpoint)

    async def until_running(self, job: str, epoch: int, within_s: float) -> JobStatus:
        """Wait until the engine runs the job. Raises `TowpathError` when it cannot."""

        async def running() -> JobStatus | None:
            assignment = self.get(job)
            await self._look(assignment)
            status = self._statuses.get(job)
            if status is None or status.epoch != epoch or status.version != assignment.version:
                return None
            if status.state in (JobState.FAILED, JobState.FENCED):
                raise TowpathError(
                    ErrorCode.FAILED, f"{job} does not run: {status.error}", field="job", value=job
                )
            return status if status.state is JobState.RUNNING else None

        try:
            return await until(running, within_s, POLL_S)
        except NotInTime as error:
            raise TowpathError(
                ErrorCode.DEADLINE, f"{job} did not start within {within_s:g} s", field="job"
            ) from error

    async def until_progress(self, job: str, within_s: float) -> JobStatus:
        """Wait for the first committed micro-batch with events of the current run."""

        async def progress() -> JobStatus | None:
            status = self._statuses.get(job)
            has_events = status is not None and status.events > 0 and status.epoch == self.get(job).epoch
            return status if has_events else None

        try:
            return await until(progress, within_s, POLL_S)
        except NotInTime as error:
            raise TowpathError(
                ErrorCode.DEADLINE, f"no events for {job} within {within_s:g} s", field="job"
            ) from error

    async def drop(self, assignment: Assignment, *, forget: bool, used_epoch: int | None) -> None:
        """Drop a job: nothing of it runs. Mirrors that no other job needs, and copies, are deleted.

        `used_epoch` is the latest that is used up; None: the command does not tell.
        """
        job = assignment.spec.name
        # First: without the assignment, no one would tell the site again.
        await self.output_copies.drop(assignment, used_epoch)
        self.assignments.pop(job, None)
        self._obstacles.pop(job, None)
        await self.engines.drop(job)
        if forget:
            await asyncio.to_thread(self.store.forget, job)
        else:
            await asyncio.to_thread(self.store.leave, assignment)
        await self.drop_unread(assignment)

    async def drop_unread(self, assignment: Assignment) -> None:
        """Delete mirrors that an assignment reads, or read before a change, and that no other one reads."""
        here = self.streams.site
        read = {e.local_stream(here) for known in self.assignments.values() for e in known.inputs}
        for entry in assignment.inputs:
            if entry.local_stream(here) not in read:
                await self.streams.mirrors.drop(entry)


_WAITING = {
    DesiredState.RUNNING: JobState.STARTING,
    DesiredState.HELD: JobState.HELD,
    DesiredState.STANDBY: JobState.STANDBY,
}
"""Desired state → state of a job of which the engine says nothing."""


def _should_run(assignment: Assignment) -> bool:
    return assignment.desired is DesiredState.RUNNING
