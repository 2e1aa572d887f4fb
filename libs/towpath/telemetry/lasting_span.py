"""A span of what outlives the process that tells of it: an operation, an apply, a scenario's run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from towpath.telemetry.tracing import continuing, record, record_begun, traceparent_of


@dataclass(frozen=True)
class LastingSpan:
    """Its ids follow from what it is about: whoever tells of it, and however often, it is the same span."""

    name: str
    trace: str
    span: str
    begun_ns: int
    """Unix nanoseconds."""
    parent: str | None = None
    """The span it follows from; None begins a trace."""
    attributes: dict[str, Any] = field(default_factory=dict)

    def tell_begun(self) -> None:
        """It goes on: a trace that is looked at meanwhile has it already."""
        record_begun(
            self.name,
            begun_ns=self.begun_ns,
            trace=self.trace,
            span=self.span,
            parent=self.parent,
            attributes=self.attributes,
        )

    def tell_ended(self, ended_ns: int, *, error: str | None, **attributes: str) -> None:
        """It has ended, as expected or with an error; `attributes` say what is known only now."""
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
        """Work inside belongs to it."""
        return continuing(traceparent_of(self.trace, self.span))
