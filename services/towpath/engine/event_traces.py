"""Traces of single events. Now and then an event is traced whose result was just stored.

Spans of such a trace: `stored` (from the device, if the event says when it was sent), `waiting` until the
micro-batch began that published the result (for a window that includes its time in the state), that
`batch <n>` up to its commit, and in it `result stored`.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.job import Assignment, ResolvedInput
from towpath.contracts.traces import SpanKind
from towpath.engine.batch_reports import BatchReport
from towpath.engine.batch_spans import batch_attributes
from towpath.streams.pages import StoredMessage
from towpath.streams.sink import StoredBatch
from towpath.telemetry.shipping import SAMPLED_EVENT
from towpath.telemetry.tracing import ids_of, record, span_of, trace_of

log = logging.getLogger(__name__)

LookUp = Callable[[str, int], "Future[StoredMessage | None]"]
"""Stream and serial number → the message, or None if it is not kept any more. Does not block."""


@dataclass(frozen=True)
class SentEvent:
    """Origin of an event as its own JSON states it, as far as that is plausible."""

    ids: tuple[str, str] | None = None
    """Trace and span that the event continues."""
    sent_ns: int | None = None

    @classmethod
    def of(cls, body: bytes, *, from_device: bool) -> SentEvent:
        """Read `traceparent` (W3C) and `sent_at` (ISO 8601) of an event, or of the values of a result."""
        try:
            content = json.loads(body)
            members = content if from_device else content["values"]
            parent, sent_at = members.get("traceparent"), members.get("sent_at")
        except (ValueError, KeyError, TypeError, AttributeError):
            return cls()
        return cls(
            ids=ids_of(parent) if isinstance(parent, str) else None,
            sent_ns=time_ns_of(sent_at) if isinstance(sent_at, str) else None,
        )


def time_ns_of(text: str) -> int | None:
    """Return Unix nanoseconds of an ISO 8601 time, by default in UTC. None if the value is no time."""
    try:
        time_ = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((time_ if time_.tzinfo else time_.replace(tzinfo=UTC)).timestamp() * 1_000_000) * 1000


@dataclass
class _Sampled:
    """An event whose result is stored, until its message is fetched and its micro-batch reported."""

    source: ResolvedInput
    serial: int
    stored_ns: int
    """Stated by the result, to the millisecond."""
    published: StoredBatch
    message: Future[StoredMessage | None]
    report: BatchReport | None = None


@dataclass
class EventTraces:
    """Traced events of one run of one job. Any thread may call it."""

    assignment: Assignment
    site: str
    look_up: LookUp
    pause_s: float | None = 10.0
    """Time between two traced events of a job. None if no event is traced."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _due: float = 0.0
    """Time of the next traced event, by the monotonic clock."""
    _sampled: _Sampled | None = None

    @property
    def waits(self) -> bool:
        """True if a micro-batch has published and is not reported yet."""
        sampled = self._sampled
        return sampled is not None and sampled.report is None

    def stored(self, published: StoredBatch) -> None:
        """Note that a micro-batch's results are stored. Pick one of them if it is time."""
        if self.pause_s is None or time.monotonic() < self._due:
            return
        result = _read(random.choice(published.results).body)
        source = self._source_of(result)
        serial, stored_ns = result.get("serial"), time_ns_of(str(result.get("stored_at")))
        if source is None or not isinstance(serial, int) or stored_ns is None:
            return
        self.close()
        self._due = time.monotonic() + self.pause_s
        stream = source.local_stream(self.site)
        message = self.look_up(stream, serial)
        sampled = self._sampled = _Sampled(source, serial, stored_ns, published, message)
        message.add_done_callback(lambda _: self._finish(sampled))

    def _source_of(self, result: dict[str, Any]) -> ResolvedInput | None:
        """Return the input of the result's newest event. None for a window over several inputs."""
        inputs = self.assignment.inputs
        if len(inputs) == 1:
            return inputs[0]
        return next((entry for entry in inputs if entry.name == result.get("input")), None)

    def take_in(self, report: BatchReport) -> None:
        """Take in a committed micro-batch: each once, in order. Some may be missing."""
        sampled = self._sampled
        if sampled is not None and report.batch == sampled.published.batch:
            sampled.report = report
            self._finish(sampled)

    def close(self) -> None:
        """Forget all events that wait."""
        with self._lock:
            sampled, self._sampled = self._sampled, None
        if sampled is not None:
            sampled.message.cancel()

    def _finish(self, sampled: _Sampled) -> None:
        """Record the trace as soon as all its parts are known."""
        with self._lock:
            if self._sampled is not sampled or sampled.report is None or not sampled.message.done():
                return
            self._sampled = None
        try:
            self._record(sampled, sampled.report, _outcome(sampled.message))
        except Exception as error:
            # An event may contain anything. Its job continues.
            log.warning("event %d is not traced: %s: %s", sampled.serial, type(error).__name__, error)

    def _record(self, sampled: _Sampled, report: BatchReport, message: StoredMessage | None) -> None:
        source, published, job = sampled.source, sampled.published, self.assignment.spec.name
        sent = SentEvent() if message is None else SentEvent.of(message.body, from_device=source.from_device)
        stored_ns = sampled.stored_ns if message is None else _stored_ns(message) or sampled.stored_ns
        event = ("event", source.site, source.stream, str(sampled.serial))
        trace, parent = sent.ids or (trace_of(*event), None)
        stored, batch = span_of(*event, "stored"), span_of(*event, job, "batch")
        place = {"towpath.site": source.site, "towpath.stream": source.stream}
        about = {"towpath.job": job, **place, "towpath.serial": sampled.serial, SAMPLED_EVENT: True}
        # A trigger may have begun to wait for events before this one came.
        begun_ns = max(report.begun_ns, stored_ns)
        sent_ns = min(sent.sent_ns or stored_ns, stored_ns)
        span = _Spans(trace, about)
        span("stored", stored, parent, sent_ns, stored_ns, SpanKind.PRODUCER)
        span("waiting", span_of(*event, job, "waiting"), stored, stored_ns, begun_ns)
        more = batch_attributes(job, self.site, report)
        span(f"batch {report.batch}", batch, stored, begun_ns, report.ended_ns, SpanKind.CONSUMER, **more)
        result = span_of(*event, job, "result")
        span("result stored", result, batch, published.begun_ns, published.ended_ns, SpanKind.PRODUCER)


@dataclass(frozen=True)
class _Spans:
    """Records spans of one trace."""

    trace: str
    about: dict[str, str | int]

    def __call__(
        self,
        name: str,
        span: str,
        parent: str | None,
        begun_ns: int,
        ended_ns: int,
        kind: SpanKind = SpanKind.INTERNAL,
        **more: str | int | float | bool,
    ) -> None:
        record(
            name,
            begun_ns=begun_ns,
            ended_ns=max(begun_ns, ended_ns),
            trace=self.trace,
            span=span,
            parent=parent,
            kind=kind,
            attributes={**self.about, **more},
        )


def _outcome(message: Future[StoredMessage | None]) -> StoredMessage | None:
    """Return the message. None if it cannot be fetched: then the trace begins when the event was stored."""
    try:
        return message.result()
    except (CancelledError, Exception) as error:
        log.info("an event's message is not fetched: %s: %s", type(error).__name__, error)
        return None


def _stored_ns(message: StoredMessage) -> int | None:
    return time_ns_of(message.headers.get(STORED_AT_HEADER, ""))


def _read(body: bytes) -> dict[str, Any]:
    """Return a result's JSON. Empty if fault rules have changed it into something else."""
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
