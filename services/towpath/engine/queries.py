"""All queries of the engine. A task keeps each one running: it repeats failures, and verdicts are final."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from towpath.composition.job_changes import is_live
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState, JobStatus
from towpath.contracts.message import now
from towpath.contracts.metrics import Sample
from towpath.contracts.migration import AmendedResult, Paused
from towpath.contracts.site_commands import Recomputed
from towpath.engine.job_plan import compile_for
from towpath.engine.measures import SampleBuffer
from towpath.engine.query import Query
from towpath.engine.recomputation import recompute_window
from towpath.engine.session import start_process
from towpath.engine.settings import EngineSettings
from towpath.engine.watch import Watch
from towpath.streams.failures import EventsLost, EventsRenumbered, Fenced, failure_in
from towpath.streams.sink import SinkConnection
from towpath.tasks import end
from towpath.telemetry.logs import about
from towpath.telemetry.tracing import traceparent, untraced

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
"""Between two restarts of a failing query.

A broker's restart costs little time, a lasting fault little work.
"""

ERROR_CHARACTERS = 1000

PROCESS_LIMIT_S = 15.0
"""Limit for the JVM to start a process that ends at once, on a busy machine."""

STOP_LIMIT_S = 15.0
"""Limit for Spark to stop a query. Spark waits for the query's thread without a limit, even if it hangs."""

_VERDICTS = {Fenced: JobState.FENCED, EventsLost: JobState.FAILED, EventsRenumbered: JobState.FAILED}

STARTS_AT_ONCE = 4
"""Plans are compiled one after the other. With more at once, halts would find no free thread."""

START_LIMIT_S = 60.0
"""Limit for a start. It takes one or two seconds, and more on a busy machine."""


@dataclass
class _Kept:
    """A job that the engine keeps running."""

    query: Query
    state: JobState = JobState.STARTING
    restarts: int = 0
    error: str | None = None
    retried_at: datetime | None = None
    starting: asyncio.Future[None] | None = None
    """The start under way. A thread cannot be cancelled, so a halt waits for it."""
    task: asyncio.Task[None] | None = None

    def status(self) -> JobStatus:
        failures = {"restarts": self.restarts, "retried_at": self.retried_at, "error": self.error}
        return self.query.status(self.state, **failures)


class Queries:
    """The engine's table of jobs."""

    def __init__(self, session: SparkSession, settings: EngineSettings, connection: SinkConnection) -> None:
        self.session = session
        self.settings = settings
        self.connection = connection
        self._watch = Watch(session)
        self._kept: dict[str, _Kept] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._starts = asyncio.Semaphore(STARTS_AT_ONCE)
        self._compiled: dict[str, tuple[Assignment, DataFrame]] = {}
        """Job → the plan compiled last, for a start after the analysis."""
        self._samples = SampleBuffer()

    def statuses(self) -> list[JobStatus]:
        """Return the status of all jobs."""
        return [kept.status() for kept in self._kept.values()]

    def sample(self) -> None:
        """Take samples of all jobs that run."""
        for kept in self._kept.values():
            if not _is_final(kept.state):
                self._samples.add(kept.query.samples())

    def measures(self, after: int) -> tuple[list[Sample], int]:
        """Return the samples behind number `after`, and the last number. See `SampleBuffer.after`."""
        return self._samples.after(after)

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep the job running with this assignment.

        A run with another assignment is halted first, unless it can be adjusted while it runs.
        """
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
            # The command's trace ends with its answer. The later life of the query is not part of it.
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
        # The keeper ends first, because it would restart a query that ends.
        await end([kept.task])
        if kept.starting is not None:
            await asyncio.wait({kept.starting}, timeout=START_LIMIT_S)
            if not kept.starting.done():
                _leave(f"query {name} does not end to start")
        await self._end(kept, within_s)
        # Without these, the counters would miss what came since the last interval.
        self._samples.add(kept.query.samples())
        return await asyncio.to_thread(kept.query.paused)

    async def _end(self, kept: _Kept, within_s: float) -> None:
        """Stop the query. If it does not stop, exit, and the agent starts a new engine.

        A query that runs on could write to the checkpoint while that is sent away.
        """
        try:
            async with asyncio.timeout(within_s + STOP_LIMIT_S):
                await asyncio.to_thread(kept.query.halt, within_s, traceparent())
        except Exception as error:
            _leave(f"query {kept.query.assignment.spec.name} cannot be stopped: {error!r}")

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Compile the job's plan, and keep it for a start. Raises `TowpathError` for what does not fit.

        Compiling takes up to a second. A job that arrives by migration is compiled before its source stops.
        """
        query = Query.of(self.session, self.settings, self.connection, assignment, checkpoint)
        plan = await asyncio.to_thread(compile_for, self.session, self.settings, assignment, query.pause_file)
        self._compiled[assignment.spec.name] = (_essence(assignment), plan)

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """Return the job's results over a range of its input, as one window. Raises `TowpathError`."""
        results = await asyncio.to_thread(
            recompute_window, self.session, self.settings, assignment, after, through
        )
        return Recomputed(results=[AmendedResult(identity=name, body=body) for name, body in results])

    def _plan_of(self, assignment: Assignment) -> DataFrame | None:
        """Return the plan of an earlier analysis of this very assignment. None if there is none."""
        compiled, plan = self._compiled.pop(assignment.spec.name, (None, None))
        return plan if compiled == _essence(assignment) else None

    async def close(self) -> None:
        """Halt everything."""
        names = list(self._kept)
        await asyncio.gather(*(self.halt(name, 3.0) for name in names), return_exceptions=True)
        await self._watch.close()

    async def _keep(self, kept: _Kept) -> None:
        """Start the query, and restart it whenever it fails, until a verdict is final."""
        pause = FIRST_PAUSE_S
        while True:
            started_at = time.monotonic()
            try:
                async with self._starts:
                    plan = self._plan_of(kept.query.assignment)
                    kept.starting = asyncio.ensure_future(asyncio.to_thread(kept.query.start, plan))
                    await asyncio.shield(kept.starting)
                kept.state, kept.error, kept.retried_at = JobState.RUNNING, None, None
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
            await self._leave_if_nothing_starts()
            if time.monotonic() - started_at > LONGEST_PAUSE_S:
                pause = FIRST_PAUSE_S  # It ran for a while: this is another trouble.
            kept.restarts += 1
            kept.retried_at = now() + timedelta(seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def _leave_if_nothing_starts(self) -> None:
        """Exit if the JVM can start no process, and so no query: the agent starts a new engine.

        A Java that is upgraded in place is the usual reason. Its new helper refuses the JVM that still runs.
        """
        try:
            async with asyncio.timeout(PROCESS_LIMIT_S):
                await asyncio.to_thread(start_process, self.session)
        except TimeoutError:
            log.warning("Java has started no process within %g s", PROCESS_LIMIT_S)
        except Py4JJavaError as error:
            log.error("Java can start no process any more; leaving, so that a new engine does: %s", error)
            os._exit(72)

    def _lock(self, name: str) -> asyncio.Lock:
        return self._locks.setdefault(name, asyncio.Lock())


def _leave(why: str) -> NoReturn:
    """End the engine, so that the agent starts a new one. What runs unseen could write where others do."""
    log.error("leaving: %s", why)
    os._exit(75)


def _essence(assignment: Assignment) -> Assignment:
    """Return the assignment without what its plan does not depend on."""
    return assignment.model_copy(update={"desired": DesiredState.RUNNING, "migration": None})


def _verdict(failure: str) -> JobState:
    """Return the state after a failure. Some failures are final, and others are tried again."""
    known = failure_in(failure)
    return JobState.RETRYING if known is None else _VERDICTS.get(known.kind, JobState.RETRYING)


def _is_adjusted(query: Query, assignment: Assignment) -> bool:
    """Return True if the assignment differs from the query's only in what can change while it runs."""
    before, told = query.assignment, ("spec", "revision", "adjustments", "adjusted_by")
    same = before.model_copy(update={field: getattr(assignment, field) for field in told})
    return same == assignment and (before.spec == assignment.spec or is_live(before.spec, assignment.spec))


def _is_final(state: JobState) -> bool:
    return state in (JobState.FENCED, JobState.FAILED)


def _shortened(failure: str) -> str:
    """Return one line that says most, because Spark wraps errors in long traces."""
    known = failure_in(failure)
    if known is not None:
        return known.text[:ERROR_CHARACTERS]
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    return "; ".join([*lines[:1], *causes[-1:]])[:ERROR_CHARACTERS]
