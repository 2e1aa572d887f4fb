"""The site's jobs: what should run is made to run, whatever dies."""

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
from towpath.checkpoints.standing import position, standing
from towpath.contracts.engine import QueryList
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus
from towpath.contracts.migration import Paused
from towpath.streams.streams import SiteStreams
from towpath.telemetry.tracing import untraced

log = logging.getLogger(__name__)

RECONCILE_S = 0.3
"""Between looks at the engine: bounds how long a restarted engine stands idle."""

POLL_S = 0.05
HALT_S = 10.0
"""For the micro-batch under way to be committed before a halt interrupts it."""

WHOLE_S = 60.0
"""The same where an interrupted micro-batch would fail the operation. One that caught up with a backlog, and
publishes over a slow link, takes so long."""


class Jobs:
    """All assignments of the site, and the loop that carries them out."""

    def __init__(
        self,
        store: AssignmentStore,
        engines: Engines,
        streams: SiteStreams,
    ) -> None:
        self.store = store
        self.engines = engines
        self.streams = streams
        self.assignments = store.load_all()
        self._statuses: dict[str, JobStatus] = {}
        self._committed: dict[str, datetime] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._unplaced: dict[str, str] = {}
        """Job → why its code cannot be had."""

    def lock(self, job: str) -> asyncio.Lock:
        """Held while a command changes a job."""
        return self._locks.setdefault(job, asyncio.Lock())

    def get(self, job: str) -> Assignment:
        """The assignment of a job. Raises `TowpathError` (unknown job)."""
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
        """How all jobs go, as of the last look at the engine."""
        return [self.status(assignment) for assignment in self.assignments.values()]

    def status(self, assignment: Assignment) -> JobStatus:
        """How a job goes, as of the last look at the engine."""
        job = assignment.spec.name
        status = self._statuses.get(job)
        if status is not None and status.epoch == assignment.epoch and _should_run(assignment):
            return status
        state = JobState.STARTING if _should_run(assignment) else JobState.HELD
        return JobStatus(job=job, epoch=assignment.epoch, state=state, error=self._unplaced.get(job))

    async def keep(self) -> None:
        """Compare what should run with what runs, for ever."""
        while True:
            try:
                await self._reconcile()
                await self.engines.tidy(self.assignments)
            except TowpathError as error:
                log.info("engine: %s", error)
            await asyncio.sleep(RECONCILE_S)

    async def _reconcile(self) -> None:
        listed = await self.engines.queries()
        self._take_in(listed)
        # First: of two engines that run one job, both would write its checkpoint.
        await self._halt_strays(listed)
        for job, assignment in list(self.assignments.items()):
            status = self._statuses.get(job)
            if self.lock(job).locked() or not _should_run(assignment) or engine_of(assignment) not in listed:
                continue
            if status is None or status.epoch != assignment.epoch:
                async with self.lock(job):
                    if self.assignments.get(job) == assignment:
                        await self._run_if_placed(assignment)

    async def _run_if_placed(self, assignment: Assignment) -> None:
        """A job whose code is out of reach is tried again, and keeps no other job from running."""
        job = assignment.spec.name
        try:
            await self.run(assignment)
        except Unplaced as error:
            log.warning("%s does not run: %s", job, error)
            self._unplaced[job] = error.detail.one_line()
        else:
            self._unplaced.pop(job, None)

    async def _halt_strays(self, listed: Mapping[str, QueryList]) -> None:
        """A query that nobody asked for: left over from a halt whose answer was lost."""
        for engine, queries in listed.items():
            for status in queries.queries:
                lock = self.lock(status.job)
                if not lock.locked() and not self._wanted(status.job, engine):
                    async with lock:
                        await self.engines.halt(engine, status.job, HALT_S)

    async def _look(self, assignment: Assignment) -> None:
        """See at once how a job goes, if its engine answers; `keep` looks again in any case."""
        # Asked again and again: no part of a trace.
        with contextlib.suppress(TowpathError, NatsError), untraced():
            self._take_in(await self.engines.queries(assignment))

    def _wanted(self, job: str, engine: str) -> bool:
        assignment = self.assignments.get(job)
        return assignment is not None and _should_run(assignment) and engine_of(assignment) == engine

    def _take_in(self, listed: Mapping[str, QueryList]) -> None:
        """How jobs go whose engines answered. Of the others the last news stays."""
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
        """Where the job should run, if it is here."""
        assignment = self.assignments.get(job)
        return None if assignment is None else engine_of(assignment)

    async def keep_assignment(self, assignment: Assignment) -> None:
        """Record what is to be done, before it is done."""
        await asyncio.to_thread(self.store.save, assignment)
        self.assignments[assignment.spec.name] = assignment

    async def settle_beginnings(self, assignment: Assignment) -> Assignment:
        """A new job with an open beginning starts at the oldest event that is kept now."""
        settled = []
        for entry in assignment.inputs:
            after = entry.after_serial
            if after is None:
                after = (await self.streams.bounds(entry.site, entry.stream)).first - 1
            settled.append(entry.model_copy(update={"after_serial": after}))
        return assignment.model_copy(update={"inputs": settled})

    async def prepare_inputs(
        self, assignment: Assignment, after_serials: dict[str, int] | None = None
    ) -> Assignment:
        """Settle where the job begins, and mirror what comes from other sites."""
        settled = await self.settle_beginnings(assignment)
        for entry in settled.inputs:
            begin = entry.after_serial or 0
            after = max((after_serials or {}).get(entry.name, begin), begin)
            await self.streams.reach_back(entry, after)
        return settled

    async def run(self, assignment: Assignment) -> None:
        """Hand a job to the engine."""
        for entry in assignment.inputs:
            await self.streams.ensure_input(entry, self.position(assignment).get(entry.name))
        await self.engines.run(assignment, self.store.checkpoint(assignment))

    async def halt(self, assignment: Assignment, within_s: float = HALT_S) -> Paused:
        """Stop a job if it runs; where it stands, by its checkpoint. See `HaltQuery` for `within_s`."""
        job = assignment.spec.name
        last = self._committed.get(job)
        # An engine that starts runs nothing; to hear that from itself takes as long as Spark does.
        starting = self.engines.is_starting(assignment)
        paused = None if starting else await self._halted(assignment, within_s)
        if paused is None:
            paused = await asyncio.to_thread(standing, self.store.checkpoint(assignment), assignment)
        self._statuses.pop(job, None)
        return paused.model_copy(update={"last_processed_at": paused.last_processed_at or last})

    async def _halted(self, assignment: Assignment, within_s: float) -> Paused | None:
        """Where the engine stopped the job; None if it does not run it."""
        try:
            return await self.engines.halt(engine_of(assignment), assignment.spec.name, within_s)
        except TowpathError as error:
            if error.detail.code is not ErrorCode.UNKNOWN_JOB:
                raise
            return None

    def position(self, assignment: Assignment) -> dict[str, int]:
        """Input → last serial number processed, or where the job begins."""
        return position(self.store.checkpoint(assignment), assignment)

    async def until_running(self, job: str, epoch: int, within_s: float) -> JobStatus:
        """Wait until the engine runs the job. Raises `TowpathError` when it cannot."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while loop.time() < end:
            await self._look(self.get(job))
            status = self._statuses.get(job)
            if status is not None and status.epoch == epoch:
                if status.state is JobState.RUNNING:
                    return status
                if status.state in (JobState.FAILED, JobState.FENCED):
                    raise TowpathError(
                        ErrorCode.FAILED, f"{job} does not run: {status.error}", field="job", value=job
                    )
            await asyncio.sleep(POLL_S)
        raise TowpathError(ErrorCode.DEADLINE, f"{job} did not start within {within_s:g} s", field="job")

    async def until_progress(self, job: str, within_s: float) -> JobStatus:
        """Wait for the first committed micro-batch with events of the current run."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while loop.time() < end:
            status = self._statuses.get(job)
            if status is not None and status.events > 0 and status.epoch == self.get(job).epoch:
                return status
            await asyncio.sleep(POLL_S)
        raise TowpathError(ErrorCode.DEADLINE, f"no events for {job} within {within_s:g} s", field="job")

    async def drop(self, assignment: Assignment, *, forget: bool) -> None:
        """Give a job up: nothing runs, mirrors nobody else needs are gone."""
        job = assignment.spec.name
        self.assignments.pop(job, None)
        self._unplaced.pop(job, None)
        await self.engines.drop(job)
        if forget:
            await asyncio.to_thread(self.store.forget, job)
        else:
            await asyncio.to_thread(self.store.leave, assignment)
        for entry in assignment.inputs:
            if not self._reads(entry.site, entry.stream):
                await self.streams.drop_mirror(entry)

    def _reads(self, site: str, stream: str) -> bool:
        return any(
            (entry.site, entry.stream) == (site, stream)
            for assignment in self.assignments.values()
            for entry in assignment.inputs
        )


def _should_run(assignment: Assignment) -> bool:
    return assignment.desired is DesiredState.RUNNING
