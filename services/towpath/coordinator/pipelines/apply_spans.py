"""The span of an apply. Its operations are its children."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from towpath.contracts.pipeline import ApplyState
from towpath.coordinator.pipelines.records import ApplyRecord
from towpath.protocols.spans import nanoseconds
from towpath.telemetry.lasting_span import LastingSpan
from towpath.telemetry.tracing import ids_of, span_of


def in_apply(apply: ApplyRecord) -> AbstractContextManager[None]:
    """Make work inside the context belong to the apply's span, if it is traced."""
    span = _span(apply)
    return span.inside() if span is not None else nullcontext()


def tell_apply_begun(apply: ApplyRecord) -> None:
    """Record that the apply is under way."""
    if span := _span(apply):
        span.tell_begun()


def tell_apply(apply: ApplyRecord) -> None:
    """Record the ended apply. A repetition records the same span."""
    span = _span(apply)
    if span is None or apply.ended_at is None:
        return
    error = None if apply.state is ApplyState.COMPLETED else f"{apply.state}: {apply.note}"
    span.tell_ended(nanoseconds(apply.ended_at), error=error, state=apply.state.value)


def _span(apply: ApplyRecord) -> LastingSpan | None:
    """Return the apply's span; None if its command belongs to no trace."""
    ids = ids_of(apply.traceparent) if apply.traceparent else None
    if ids is None:
        return None
    return LastingSpan(
        name=f"delete {apply.pipeline}" if apply.delete else f"apply {apply.pipeline}",
        trace=ids[0],
        span=span_of("apply", apply.id),
        begun_ns=nanoseconds(apply.begun_at),
        parent=ids[1],
        attributes={
            "towpath.apply": apply.id,
            "towpath.pipeline": apply.pipeline,
            "towpath.version": apply.version,
        },
    )
