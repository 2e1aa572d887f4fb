"""A trace in one line. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from towpath.contracts.traces import Span, TraceSummary

OPERATION = "towpath.operation"

STORED = "stored"
"""First span of a single event's trace: on its way from the device to the site's log."""


def summary(trace: str, spans: Sequence[Span]) -> TraceSummary:
    """The trace in one line. It has at least one span."""
    begun_ns = min(span.begun_ns for span in spans)
    first = min(spans, key=lambda span: (span.parent is not None, span.begun_ns))
    return TraceSummary(
        trace=trace,
        name=first.name,
        service=first.service,
        begun_at=datetime.fromtimestamp(begun_ns / 1e9, UTC),
        duration_s=(max(span.ended_ns for span in spans) - begun_ns) / 1e9,
        spans=len(spans),
        failed=sum(span.error is not None for span in spans),
        operation=_operation(spans),
    )


def _operation(spans: Sequence[Span]) -> str | None:
    """The operation a trace is about: the first, where an apply has many."""
    about = [span for span in spans if span.name.startswith("operation ") and OPERATION in span.attributes]
    return str(min(about, key=lambda span: span.begun_ns).attributes[OPERATION]) if about else None


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Spans of each trace."""
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        found[span.trace].append(span)
    return dict(found)


def is_of_event(spans: Sequence[Span]) -> bool:
    """Whether a trace is that of a single event, and its beginning is there."""
    return any(span.name == STORED and "towpath.serial" in span.attributes for span in spans)
