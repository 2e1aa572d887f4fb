"""Spans of a transfer in a trace: one at the source, and below it one at the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from towpath.telemetry.tracing import continuing, is_traced

TRACEPARENT = "traceparent"
"""Field of a transfer's first entry: the span of the source, in the form of W3C."""

_tracer = trace.get_tracer("towpath.checkpoints")


@contextmanager
def shipping(operation: str, job: str | None) -> Iterator[Span]:
    """Make a span around the sending of a checkpoint. Yield it, so that attributes can be added."""
    if not is_traced():
        yield trace.INVALID_SPAN
        return
    attributes = {"towpath.operation": operation, **({"towpath.job": job} if job else {})}
    with _tracer.start_as_current_span(
        "ship checkpoint", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        yield span


class Receiving:
    """The receiving end's span: from a transfer's first entry until it is complete or begins again."""

    def __init__(self) -> None:
        self._span: Span = trace.INVALID_SPAN
        self._taken_bytes = 0

    def begin(self, traceparent: str | None) -> None:
        """Note that a source begins, perhaps again. Without `traceparent` there is no trace."""
        self.end("the source began again")
        if traceparent is not None:
            with continuing(traceparent):
                self._span = _tracer.start_span("receive checkpoint", kind=SpanKind.CONSUMER)

    def took(self, count: int) -> None:
        """Note that `count` more bytes are on disk."""
        self._taken_bytes += count

    def end(self, error: str | None = None) -> None:
        """End the span of a transfer that is complete or has failed. Without a begin, do nothing."""
        if error is not None:
            self._span.set_status(StatusCode.ERROR, error)
        self._span.set_attribute("towpath.bytes", self._taken_bytes)
        self._span.end()
        self._span, self._taken_bytes = trace.INVALID_SPAN, 0
