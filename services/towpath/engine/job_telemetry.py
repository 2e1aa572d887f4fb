"""Measurements and traces of one run of one job, in one place for the query and its sink."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass
from time import time
from typing import Any

from towpath.contracts.job import Assignment
from towpath.contracts.operators import step_names
from towpath.contracts.site import Observation
from towpath.engine.batch_reports import BatchReport
from towpath.engine.batch_spans import BatchSpans
from towpath.engine.event_traces import EventTraces, LookUp, time_ns_of
from towpath.engine.job_measures import JobMeasures, Measured
from towpath.streams.sink import StoredBatch

log = logging.getLogger(__name__)

MOST_RESULTS = 50
"""Results of a micro-batch whose latency is measured. Reading them takes less than a millisecond."""


@dataclass
class JobTelemetry:
    """Any thread may call it. Errors are only logged: the job continues without its figures."""

    inputs: list[str]
    measures: JobMeasures
    spans: BatchSpans
    events: EventTraces
    steps: list[str]
    """Of a chain: the names of its steps."""
    shares_streams: bool = False
    """True if streams have events of other topics, too: serial numbers do not count the job's own."""
    enabled: bool = True
    """False if only commands are traced."""
    newest: int = -1
    """The newest micro-batch that was taken in."""

    @classmethod
    def of(
        cls, assignment: Assignment, site: str, look_up: LookUp, observation: Observation | None = None
    ) -> JobTelemetry:
        """Return telemetry of a job that `site` will run. `look_up` fetches events from its streams."""
        observation = observation or Observation()
        job = assignment.spec.name
        return cls(
            inputs=[entry.name for entry in assignment.inputs],
            measures=JobMeasures(job),
            spans=BatchSpans(job, site, assignment.generation),
            events=EventTraces(assignment, site, look_up, pause_s=observation.event_traces_every_s),
            steps=step_names(assignment.spec.operator),
            shares_streams=any(entry.subject is not None for entry in assignment.inputs),
            enabled=observation.enabled,
        )

    def begin(self, newest: int | None, serials: dict[str, int]) -> None:
        """Note that the job runs, perhaps again, behind micro-batch `newest` and serial numbers by input."""
        if newest is not None:
            self.newest = newest
        self.measures.begin(serials)

    def misses(self, progress: dict[str, Any]) -> bool:
        """Return True if earlier reports of Spark's are missing before this one, and something needs them."""
        counts = self.enabled and self.shares_streams
        return progress["batchId"] > self.newest + 1 and (counts or self.spans.waits or self.events.waits)

    def take_in(self, progress: dict[str, Any]) -> None:
        """Take in a report of Spark's, in order. Repeated ones change nothing."""
        try:
            report = BatchReport.of(progress, self.inputs, self.steps)
            if report is None or report.batch <= self.newest:
                return
            self.newest = report.batch
            self.spans.take_in(report)
            if self.enabled:
                self.measures.take_in(report)
                self.events.take_in(report)
        except Exception as error:
            log.warning("report of %s: %s: %s", self.measures.job, type(error).__name__, error)

    def halted(self, traceparent: str | None, asked_ns: int) -> None:
        """Note that the job was halted. That was commanded at `asked_ns` (Unix nanoseconds)."""
        self.spans.halted(traceparent, asked_ns)
        self.events.close()

    def stored(self, published: StoredBatch) -> None:
        """Note that all results of a micro-batch are stored, and that none was stored before."""
        if not self.enabled:
            return
        try:
            self.measures.add_latencies(latencies(published))
            self.events.stored(published)
        except Exception as error:
            log.warning("results of %s: %s: %s", self.measures.job, type(error).__name__, error)

    def samples(self, *, results: int, rejected: int) -> list[Measured]:
        """Return the measurements since the last call."""
        if not self.enabled:
            return []
        return self.measures.samples(time(), results=results, rejected=rejected)


def latencies(published: StoredBatch) -> Iterable[float]:
    """Return the latencies of some evenly picked results, seconds. See `JobMeasures.add_latencies`."""
    step = math.ceil(len(published.results) / MOST_RESULTS)
    for result in published.results[::step]:
        try:
            stored_ns = time_ns_of(json.loads(result.body)["stored_at"])
        except (ValueError, KeyError, TypeError):
            continue  # Fault rules may have changed it into anything.
        if stored_ns is not None:
            yield (published.ended_ns - stored_ns) / 1e9
