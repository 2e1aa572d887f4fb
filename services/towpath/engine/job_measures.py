"""Measurements of one job while it runs, until they are read."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from towpath.engine.batch_reports import PHASES, BatchReport

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}

MOST_LATENCIES = 10_000
"""Most latencies that are kept of one interval. A micro-batch gives fifty at most."""

_PHASE_METRICS = {phase: f"job.batch.phase.{phase}" for phase in PHASES}


class Measured(NamedTuple):
    """A sample. It is as small as Python allows, because an engine keeps many."""

    entity: str
    metric: str
    at: float
    """Unix seconds."""
    value: float


def quantiles(name: str, values: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Yield quantiles of values as metrics under `name`. Each is one of the values. None without values."""
    ordered = sorted(values)
    for short, quantile in QUANTILES.items() if ordered else ():
        yield f"{name}.{short}", ordered[math.ceil(quantile * len(ordered)) - 1]


@dataclass
class JobMeasures:
    """Measurements of one run of one job. Any thread may call it."""

    job: str
    clock: Callable[[], float] = time.monotonic
    """Seconds, for rates."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _sampled_at: float | None = None
    """Time of the last samples, by `clock`. None before the job has begun."""
    _through: dict[str, int] = field(default_factory=dict)
    """Input → serial number up to which events are counted."""
    _events: int = 0
    _sampled: tuple[int, int] = (0, 0)
    """Events and results at the last samples."""
    _newest: BatchReport | None = None
    _batches: list[BatchReport] = field(default_factory=list)
    """Since the last samples."""
    _batch_events: int | None = None
    """Of the newest micro-batch that had any, since the last samples."""
    _latencies: list[float] = field(default_factory=list)
    """End to end, seconds, since the last samples."""

    def begin(self, serials: dict[str, int]) -> None:
        """Note that the job begins to run behind these serial numbers. Later runs change nothing."""
        with self._lock:
            if self._sampled_at is None:
                self._sampled_at, self._through = self.clock(), dict(serials)

    def take_in(self, report: BatchReport) -> None:
        """Take in a committed micro-batch: each once, in order. Some may be missing."""
        with self._lock:
            # Without a report only the serial numbers are known. With other topics in the stream they are
            # more than the events.
            unreported = sum(
                max(0, after - self._through.get(name, after)) for name, after in report.after.items()
            )
            self._events += report.events + unreported
            self._through |= report.through
            self._newest = report
            self._batches.append(report)
            if report.events:
                self._batch_events = report.events

    def add_latencies(self, latencies: Iterable[float]) -> None:
        """Take in latencies of results: seconds between the storing of the newest event and of the result."""
        with self._lock:
            self._latencies += latencies
            del self._latencies[:-MOST_LATENCIES]

    def samples(self, at: float, *, results: int, rejected: int) -> list[Measured]:
        """Return the samples at `at` (Unix seconds), and begin to measure the next interval.

        `results` and `rejected` were stored since the run began. Before the job begins there are no samples.
        While nothing comes, rates are 0, and durations of micro-batches are not repeated.
        """
        with self._lock:
            if self._sampled_at is None:
                return []
            found = [
                ("job.results", results),
                ("job.rejected", rejected),
                ("job.events", self._events),
                *self._rates(self._sampled_at, results),
                *self._of_batches(),
                *self._standing(at),
                *quantiles("job.latency.end_to_end", self._latencies),
            ]
            self._sampled_at, self._sampled = self.clock(), (self._events, results)
            self._batches, self._batch_events, self._latencies = [], None, []
        entity = f"job:{self.job}"
        return [Measured(entity, metric, at, float(value)) for metric, value in found]

    def _rates(self, since: float, results: int) -> Iterator[tuple[str, float]]:
        interval_s = self.clock() - since
        if interval_s > 0:
            events_before, results_before = self._sampled
            yield "job.event_rate", (self._events - events_before) / interval_s
            yield "job.result_rate", (results - results_before) / interval_s

    def _of_batches(self) -> Iterator[tuple[str, float]]:
        if self._batch_events is not None:
            yield "job.batch.events", self._batch_events
        if self._batches:
            for phase, seconds in self._batches[-1].phases.items():
                yield _PHASE_METRICS[phase], seconds
        yield from quantiles("job.latency.processing", [report.duration_s for report in self._batches])

    def _standing(self, at: float) -> Iterator[tuple[str, float]]:
        """Yield values that stay true while nothing comes."""
        newest = self._newest
        if newest is None:
            return
        if newest.watermark is not None:
            yield "job.watermark.delay", (datetime.fromtimestamp(at, UTC) - newest.watermark).total_seconds()
        if newest.state_rows is not None and newest.state_bytes is not None:
            yield "job.state.rows", newest.state_rows
            yield "job.state.memory", newest.state_bytes
