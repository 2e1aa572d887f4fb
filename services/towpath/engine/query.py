"""One job as a streaming query: built, started, watched, halted."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from towpath.atomic_write import write_atomically
from towpath.contracts.job import Assignment, JobState, JobStatus
from towpath.contracts.migration import Paused
from towpath.contracts.site import Compilation
from towpath.engine.batch_reports import REPORTS, serials, working_ms
from towpath.engine.code_generation import CodeGeneration
from towpath.engine.job_measures import Measured
from towpath.engine.job_plan import (
    bound_file,
    compile_for,
    compiling,
    events_per_batch,
    shares_file,
)
from towpath.engine.job_telemetry import JobTelemetry
from towpath.engine.settings import EngineSettings
from towpath.engine.step_counts import StepCounts
from towpath.engines.spark.checkpoint_format import SPARK_CHECKPOINTS
from towpath.engines.spark.layout import newest_commit, serials_at
from towpath.hooks.points import ENGINE_PROGRESS
from towpath.operators.chains import state_behind_windows_allowed
from towpath.operators.compilation import micro_batch_window
from towpath.operators.kinds.window import punctuated_ms
from towpath.operators.processing_windows import MicroBatchWindow
from towpath.operators.rejections import observed
from towpath.queries.sample_sizes import SampleSizes, sample_sizes_of, windows_of_results
from towpath.streams.encoding import Message, MessageEncoder
from towpath.streams.event_reader import SerialRange
from towpath.streams.pacing import forget_pace, is_waiting
from towpath.streams.sink import JobSink, SinkConnection

log = logging.getLogger(__name__)

HALT_POLL_S = 0.01

START_S = 60.0
"""Time for Spark to return from starting a query whose first micro-batch is under way: milliseconds."""


def planned_range(checkpoint: Path, assignment: Assignment, batch: int) -> SerialRange:
    """Return the planned range of a micro-batch of a job with one input.

    It is the same when the micro-batch runs again.
    """
    (source,) = assignment.inputs
    names = [source.name]
    begin = source.after_serial or 0
    after = serials_at(checkpoint, batch - 1, names).get(source.name, begin) if batch else begin
    return SerialRange(after, serials_at(checkpoint, batch, names).get(source.name, after))


@dataclass
class Query:
    """A run of a job. Methods block: call them from a thread."""

    session: SparkSession
    settings: EngineSettings
    assignment: Assignment
    checkpoint: Path
    sink: JobSink
    telemetry: JobTelemetry
    steps: StepCounts
    running: StreamingQuery | None = None
    _progress: dict[str, Any] = field(default_factory=dict)
    _begun: dict[str, int] = field(default_factory=dict)
    """Input → serial number where this run of the job began."""
    _reported: int | None = None
    """The newest committed micro-batch whose report was taken in."""
    _window: MicroBatchWindow | None = None
    """Makes the results of a micro-batch for operators whose plan does not."""
    _sample_sizes: SampleSizes | None = None
    """Learns from the results which shares of events suffice."""
    _code: CodeGeneration | None = None
    """Chooses between code and interpretation, where the engine interprets."""
    _passed_ms: int = 0
    """End of windows that this run punctuated last, milliseconds since 1970."""
    _started: threading.Event = field(default_factory=threading.Event)
    """Set when `running` is there: Spark may publish the first micro-batch before."""

    @classmethod
    def of(
        cls,
        session: SparkSession,
        settings: EngineSettings,
        connection: SinkConnection,
        assignment: Assignment,
        checkpoint: Path,
    ) -> Query:
        """Return a query that is not started yet."""
        telemetry = JobTelemetry.of(assignment, settings.site, connection.look_up, settings.observation)
        sink = JobSink(connection, assignment, on_stored=telemetry.stored)
        steps = StepCounts.of(assignment.spec)
        return cls(session, settings, assignment, checkpoint, sink, telemetry, steps)

    @property
    def pause_file(self) -> Path:
        """Path of a file. While it exists, the sources plan nothing new."""
        return self.checkpoint.with_name("pause")

    def start(self, results: DataFrame | None = None) -> None:
        """Start from the checkpoint. `results` is the job's compiled plan, if there is one already."""
        self.checkpoint.parent.mkdir(parents=True, exist_ok=True)
        self.pause_file.unlink(missing_ok=True)
        bound_file(self.pause_file).unlink(missing_ok=True)
        shares_file(self.pause_file).unlink(missing_ok=True)
        if results is None:
            results = compile_for(self.session, self.settings, self.assignment, self.pause_file)
        self._begun = self._begun or SPARK_CHECKPOINTS.position(self.checkpoint, self.assignment)
        self._reported = newest_commit(self.checkpoint)
        self.telemetry.begin(self._reported, self._begun)
        self._window = micro_batch_window(self.assignment)
        self._sample_sizes = sample_sizes_of(self.assignment)
        self._code = CodeGeneration() if self.settings.spec.compilation is Compilation.QUICK else None
        self.sink.begin()
        # A failed run may have ended before it stored its last punctuation.
        self._passed_ms = 0
        self._started.clear()
        forget_pace(str(self.pause_file))
        spec = self.assignment.spec
        writer = (
            results.writeStream.foreachBatch(self._publish)
            .queryName(spec.name)
            .outputMode("append")
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(processingTime="0 seconds")  # The sources wait, see `Pace`.
        )
        with compiling, state_behind_windows_allowed(self.session, spec.operator):
            self.running = writer.start()
        self._started.set()

    def adjust(self, assignment: Assignment) -> None:
        """Continue with an assignment that differs only in what can change while it runs. See `is_live`."""
        write_atomically(bound_file(self.pause_file), str(events_per_batch(assignment) or 0), durable=False)
        self.assignment = assignment

    def _publish(self, frame: DataFrame, batch: int) -> None:
        """Publish a micro-batch. Spark commits it when this returns."""
        if self._window is not None:
            planned = planned_range(self.checkpoint, self.assignment, batch)
            frame = self._window.results(frame, planned.after, planned.through)
        encoder = MessageEncoder.of(self.assignment, self.settings.site)
        table = frame.toArrow()
        results = encoder.results(table)
        execution = self._execution()
        seen = observed(execution)
        self._prepare_next(execution, seen.counts.get(0, 0))
        self.sink(results, encoder.rejected(seen.rejected), batch, self._punctuation(encoder, execution))
        self.steps.take_in(seen, len(results))
        if self._sample_sizes is not None and table.num_rows:
            self._sample_sizes.take_in(windows_of_results(table))
            shares = json.dumps(self._sample_sizes.shares())
            write_atomically(shares_file(self.pause_file), shares, durable=False)

    def _prepare_next(self, execution: Any, events: int) -> None:
        """Spare work in the next micro-batch, after one with so many events."""
        # Spark names each part of a plan after the place in the code that makes it, and searches the stack
        # for that: a tenth of planning. It does not where a name is given, and `toArrow` takes it away.
        self.session.sparkContext._jsc.setCallSite(self.assignment.spec.name)  # type: ignore[attr-defined]
        if self._code is not None:
            self._code.take_in(events, execution.sparkSession())

    def _execution(self) -> Any:
        """Return Spark's execution of the micro-batch under way, once its results are computed."""
        if not self._started.wait(START_S) or self.running is None:
            raise RuntimeError(f"query {self.assignment.spec.name} has not started in {START_S:g} s")
        return self.running._jsq.streamingQuery().lastExecution()  # type: ignore[operator]

    def _punctuation(self, encoder: MessageEncoder, execution: Any) -> Message | None:
        """Return the punctuation of the micro-batch under way, if time is past another end of windows."""
        size_ms = punctuated_ms(self.assignment.spec.operator)
        if size_ms == 0:
            return None
        passed_ms = execution.offsetSeqMetadata().batchWatermarkMs() // size_ms * size_ms
        if passed_ms <= self._passed_ms:
            return None
        self._passed_ms = passed_ms
        return encoder.punctuation(passed_ms)

    def is_active(self) -> bool:
        """Return True if Spark still runs the query."""
        running = self.running
        return running is not None and bool(running.isActive)

    def failure(self) -> str:
        """Return the reason why the query has ended."""
        error = self.running.exception() if self.running is not None else None
        return str(error) if error is not None else "stopped from outside"

    def take_in_progress(self) -> None:
        """Ask Spark for its newest report, if the checkpoint has a micro-batch that is not reported yet."""
        running = self.running
        newest = newest_commit(self.checkpoint)
        if running is None or (self._progress and newest == self._reported):
            return
        # One string across the bridge, instead of PySpark's object with a call for each field. With a
        # listener, reports would cost a fifth of the engine's CPU time.
        report = running._jsq.lastProgress()  # type: ignore[operator]
        if report is None:
            return
        progress = json.loads(report.json())
        if self.telemetry.misses(progress):
            # From the newest back, because each report costs a call across the bridge.
            recent = reversed(running._jsq.recentProgress())  # type: ignore[operator]
            reports = (json.loads(each.json()) for each in recent)
            missing = takewhile(lambda each: each["batchId"] > self.telemetry.newest, reports)
            for earlier in reversed([*missing]):
                self.telemetry.take_in(earlier)
        self.telemetry.take_in(progress)
        self.on_progress(progress)
        # A report comes a moment after the commit. Before it there may be a report of a trigger that found
        # nothing, which has the number of the next micro-batch.
        if "addBatch" in progress["durationMs"]:
            self._reported = progress["batchId"]

    def halt(self, within_s: float, traceparent: str | None = None) -> None:
        """Stop after the micro-batch under way is committed, or interrupt it after `within_s` seconds.

        An interruption is safe: the micro-batch is repeated with the same offsets and message ids. The micro-
        batch that the halt waited for gets a span under `traceparent`.
        """
        if self.running is None:
            return
        try:
            self._await_boundary(self.running, within_s, traceparent)
        except Exception:
            # A full disk, for example. It must not run on when the agent believes that it has stopped.
            log.exception("%s is stopped at once", self.assignment.spec.name)
        self.running.stop()
        self.running = None
        forget_pace(str(self.pause_file))

    def _await_boundary(self, running: StreamingQuery, within_s: float, traceparent: str | None) -> None:
        asked_ns = time.time_ns()
        self.pause_file.touch()
        end = time.monotonic() + within_s
        while self._is_busy(running) and time.monotonic() < end:
            time.sleep(HALT_POLL_S)
        self.take_in_progress()
        self.telemetry.halted(traceparent, asked_ns)

    def _is_busy(self, running: StreamingQuery) -> bool:
        """True while a micro-batch is under way. Spark counts the wait for its events, too."""
        waiting = is_waiting(str(self.pause_file))
        return running.isActive and not waiting and running.status["isTriggerActive"]

    def on_progress(self, progress: dict[str, Any]) -> None:
        """Take in Spark's report of a micro-batch. Repeated ones change nothing."""
        if ENGINE_PROGRESS.rules:
            ENGINE_PROGRESS.through([progress], REPORTS, job=self.assignment.spec.name)
        previous = self._progress
        names = [resolved.name for resolved in self.assignment.inputs]
        reached = previous.get("serials", {}) | serials(progress["sources"], "endOffset", names)
        advanced = reached != previous.get("serials", self._begun)
        self._progress = {
            "batch": progress["batchId"],
            "serials": reached,
            "events": sum(reached.values()) - sum(self._begun.get(name, 0) for name in reached),
            "batch_s": _duration_s(progress) if advanced else previous.get("batch_s"),
            "events_per_s": _rate(progress) or previous.get("events_per_s", 0.0),
            "committed_at": _ended_at(progress) if advanced else previous.get("committed_at"),
        }

    def samples(self) -> list[Measured]:
        """Return the measurements since the last call."""
        found = self.telemetry.samples(results=self.sink.results, rejected=self.sink.rejected)
        return [*found, *self.steps.samples(time.time())] if found else []

    def status(self, state: JobState, **keeping: Any) -> JobStatus:
        """Return the status of the job. `keeping` is what its keeper knows of its failures."""
        return JobStatus(
            job=self.assignment.spec.name,
            epoch=self.assignment.epoch,
            revision=self.assignment.revision,
            adjustments=self.assignment.adjustments,
            state=state,
            results=self.sink.results,
            rejected=self.sink.rejected,
            steps=self.steps.counts(),
            **self._progress,
            **keeping,
        )

    def paused(self) -> Paused:
        """Return the position of the job on disk."""
        last = self._progress.get("committed_at")
        paused = SPARK_CHECKPOINTS.paused(self.checkpoint, self.assignment)
        return paused.model_copy(update={"last_processed_at": last})


def _rate(progress: dict[str, Any]) -> float:
    """Return the events per second that the micro-batch processed."""
    return progress.get("numInputRows", 0) / max(_duration_s(progress), 0.001)


def _duration_s(progress: dict[str, Any]) -> float:
    return working_ms(progress) / 1000


def _ended_at(progress: dict[str, Any]) -> datetime:
    """Return the time when the micro-batch was committed."""
    took = timedelta(milliseconds=progress["durationMs"].get("triggerExecution", 0))
    return datetime.fromisoformat(progress["timestamp"]) + took
