"""All queries of the engine, each kept running by a task: failures are retried, verdicts are final."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from towpath.composition.job_changes import is_live
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus
from towpath.contracts.metrics import Sample
from towpath.contracts.migration import AmendedResult, Paused
from towpath.contracts.site_commands import Recomputed
from towpath.engine.measures import SampleBuffer
from towpath.engine.query import Query, compile_for
from towpath.engine.recomputation import recompute_window
from towpath.engine.settings import EngineSettings
from towpath.engine.watch import Watch
from towpath.streams.failures import EventsLost, Fenced, failure_in
from towpath.streams.sink import SinkConnection
from towpath.tasks import end
from towpath.telemetry.logs import about
from towpath.telemetry.tracing import traceparent, untraced

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
"""Between restarts of a failing query: a broker's restart is met quickly, a lasting fault cheaply."""

ERROR_CHARACTERS = 1000

STOP_LIMIT_S = 15.0
"""Spark waits for the query's thread when it stops one, for ever if that thread hangs."""

_VERDICTS = {Fenced: JobState.FENCED, EventsLost: JobState.FAILED}

START_LIMIT_S = 60.0
"""A start takes one or two seconds; on a machine under load, some more."""


@dataclass
class _Kept:
    """A job the engine keeps running."""

    query: Query
    state: JobState = JobState.STARTING
    restarts: int = 0
    error: str | None = None
    starting: asyncio.Future[None] | None = None
    """The start under way. A thread cannot be cancelled: whoever halts waits for it."""
    task: asyncio.Task[None] | None = None

    def status(self) -> JobStatus:
        return self.query.status(self.state, self.restarts, self.error)


class Queries:
    """The engine's table of jobs."""

    def __init__(self, session: SparkSession, settings: EngineSettings, connection: SinkConnection) -> None:
        self.session = session
        self.settings = settings
        self.connection = connection
        self._watch = Watch(session)
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._compiled: dict[str, tuple[Assignment, DataFrame]] = {}
        """Job → the plan compiled last, for a start that follows its analysis."""
        self._samples = SampleBuffer()

    def statuses(self) -> list[JobStatus]:
        """How all jobs go."""
        return [kept.status() for kept in self._kept.values()]

    def sample(self) -> None:
        """Take samples of all jobs that run."""
        for kept in self._kept.values():
            if not _is_final(kept.state):
                self._samples.add(kept.query.samples())

    def measures(self, after: int) -> tuple[list[Sample], int]:
        """The samples behind number `after`, and the number of the last one. See `SampleBuffer.after`."""
        return self._samples.after(after)

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep the job running with this assignment; a run with another one is halted first, unless it can be
        told what is different."""
        name = assignment.spec.name
        async with self._lock(name):
            kept = self._kept.get(name)
            if kept is not None and kept.query.assignment == assignment and not _is_final(kept.state):
                return
            if kept is not None and kept.state is JobState.RUNNING and _is_adjusted(kept.query, assignment):
                await asyncio.to_thread(kept.query.adjust, assignment)
                return
            if kept is not None:
                await self._halt(name, within_s=10.0)
            query = Query.of(self.session, self.settings, self.connection, assignment, checkpoint)
            query.telemetry.spans.begin(traceparent())
            kept = self._kept[name] = _Kept(query)
            # The command's trace ends with its answer: what becomes of the query later is not part of it.
            with untraced(), about(job=name):
                kept.task = asyncio.create_task(self._keep(kept), name=f"query {name}")

    async def halt(self, name: str, within_s: float) -> Paused:
        """Stop a job at a boundary. Raises `TowpathError` (unknown job) if it does not run here."""
        async with self._lock(name):
            if name not in self._kept:
                raise TowpathError(
                    ErrorCode.UNKNOWN_JOB,
                    "no such query in this engine",
                    field="job",
                    value=name,
                    allowed=sorted(self._kept),
                )
            return await self._halt(name, within_s)

    async def _halt(self, name: str, within_s: float) -> Paused:
        kept = self._kept.pop(name)
        # First the keeper, then the query: it would start what it sees ending.
        await end([kept.task])
        if kept.starting is not None:
            await asyncio.wait({kept.starting}, timeout=START_LIMIT_S)
        await self._end(kept, within_s)
        # What came since the last interval would be missing from the counters.
        self._samples.add(kept.query.samples())
        return await asyncio.to_thread(kept.query.paused)

    async def _end(self, kept: _Kept, within_s: float) -> None:
        """Stop the query; if that cannot be done, leave the engine: the agent starts a new one.

        A query that does not end could write to the checkpoint while it is carried away.
        """
        try:
            async with asyncio.timeout(within_s + STOP_LIMIT_S):
                await asyncio.to_thread(kept.query.halt, within_s, traceparent())
        except TimeoutError:
            log.error("query %s cannot be stopped; leaving", kept.query.assignment.spec.name)
            os._exit(75)

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Compile the job's plan and keep it for a start. Raises `TowpathError` for what does not fit.

        Compiling takes up to a second; a job that arrives by migration has that behind it when it stops.
        """
        query = Query.of(self.session, self.settings, self.connection, assignment, checkpoint)
        plan = await asyncio.to_thread(compile_for, self.session, self.settings, assignment, query.pause_file)
        self._compiled[assignment.spec.name] = (_essence(assignment), plan)

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """The job's results over a range of its input, as one window. Raises `TowpathError`."""
        results = await asyncio.to_thread(
            recompute_window, self.session, self.settings, assignment, after, through
        )
        return Recomputed(results=[AmendedResult(identity=name, body=body) for name, body in results])

    def _plan_of(self, assignment: Assignment) -> DataFrame | None:
        """The plan of an earlier analysis, if it is of this very assignment."""
        compiled, plan = self._compiled.pop(assignment.spec.name, (None, None))
        return plan if compiled == _essence(assignment) else None

    async def close(self) -> None:
        """Halt everything."""
        names = list(self._kept)
        await asyncio.gather(*(self.halt(name, 3.0) for name in names), return_exceptions=True)
        await self._watch.close()

    async def _keep(self, kept: _Kept) -> None:
        """Start the query, and again whenever it fails, until a verdict is final."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                plan = self._plan_of(kept.query.assignment)
                kept.starting = asyncio.ensure_future(asyncio.to_thread(kept.query.start, plan))
                await asyncio.shield(kept.starting)
                kept.state, kept.error = JobState.RUNNING, None
                failure = await self._watch.end_of(kept.query)
            except TowpathError as error:
                kept.state, kept.error = JobState.FAILED, error.detail.one_line()
                return
            except Exception as error:
                failure = f"{type(error).__name__}: {error}"
            kept.error = _shortened(failure)
            kept.state = _verdict(failure)
            log.warning("query %s ended (%s): %s", kept.query.assignment.spec.name, kept.state, kept.error)
            if _is_final(kept.state):
                return
            kept.restarts += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())


def _essence(assignment: Assignment) -> Assignment:
    """What the plan depends on."""
    return assignment.model_copy(update={"desired": DesiredState.RUNNING, "migration": None})


def _verdict(failure: str) -> JobState:
    """What a failure means: some are final, the others are tried again."""
    known = failure_in(failure)
    return JobState.RETRYING if known is None else _VERDICTS.get(known.kind, JobState.RETRYING)


def _is_adjusted(query: Query, assignment: Assignment) -> bool:
    """Whether the assignment is that of the query but for what it can be told as it runs."""
    before = query.assignment
    same = before.model_copy(update={"spec": assignment.spec, "revision": assignment.revision})
    return same == assignment and is_live(before.spec, assignment.spec)


def _is_final(state: JobState) -> bool:
    return state in (JobState.FENCED, JobState.FAILED)


def _shortened(failure: str) -> str:
    """The line that says most: Spark wraps Python errors in long traces."""
    known = failure_in(failure)
    return (failure.strip() if known is None else known.text)[:ERROR_CHARACTERS]
