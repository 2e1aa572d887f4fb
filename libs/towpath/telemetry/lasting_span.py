"""Spans that outlive the process that records them: an operation, an apply, a scenario's run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from towpath.telemetry.tracing import continuing, record, record_begun, traceparent_of


@dataclass(frozen=True)
class LastingSpan:
    """A span whose ids follow from what it is about: recorded again, by any process, it is the same span."""

    name: str
    trace: str
    span: str
    begun_ns: int
    """Unix nanoseconds."""
    parent: str | None = None
    """The span it follows from. None begins a trace."""
    attributes: dict[str, Any] = field(default_factory=dict)

    def tell_begun(self) -> None:
        """Record that it has begun, so that a trace that is read meanwhile contains it."""
        record_begun(
            self.name,
            begun_ns=self.begun_ns,
            trace=self.trace,
            span=self.span,
            parent=self.parent,
            attributes=self.attributes,
        )

    def tell_ended(self, ended_ns: int, *, error: str | None, **attributes: str) -> None:
        """Record its end, with or without an error. `attributes` are those that are known only now."""
        record(
            self.name,
            begun_ns=self.begun_ns,
            ended_ns=ended_ns,
            trace=self.trace,
            span=self.span,
            parent=self.parent,
            attributes={**self.attributes, **{f"towpath.{key}": text for key, text in attributes.items()}},
            error=error,
        )

    def inside(self) -> AbstractContextManager[None]:
        """Make work inside the `with` block part of the span."""
        return continuing(traceparent_of(self.trace, self.span))
