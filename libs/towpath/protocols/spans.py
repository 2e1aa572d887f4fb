"""The spans of an operation: one for the operation and one for each step, made from record and journal.

Their ids follow from the operation's id. So a killed coordinator leaves nothing to complete: the next one
records the same spans, and an agent's work for a step has that step as its parent from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

from towpath.contracts.commands import JournalEntry, OperationState
from towpath.protocols.attempts import BEGINNINGS, attempts, is_undoing
from towpath.protocols.progress import StepPhase
from towpath.protocols.record import OperationRecord
from towpath.telemetry.lasting_span import LastingSpan
from towpath.telemetry.tracing import ids_of, span_of

UNDO = "undo"


def operation_span(operation: str) -> str:
    """Return the id of an operation's span."""
    return span_of("operation", operation)


def step_span(operation: str, step: str, *, undo: bool = False) -> str:
    """Return the id of the span of a step, or of its compensation."""
    return span_of(operation, step, UNDO) if undo else span_of(operation, step)


def in_step(operation: OperationRecord, step: str, *, undo: bool = False) -> AbstractContextManager[None]:
    """Make work inside the context belong to the step's span, if the operation is traced."""
    span = _of_step(operation, step, operation.begun_at, undo=undo)
    return span.inside() if span is not None else nullcontext()


def tell_operation_begun(operation: OperationRecord) -> None:
    """Record that the operation is under way."""
    if span := _of_operation(operation):
        span.tell_begun()


def tell_step_begun(operation: OperationRecord, entry: JournalEntry) -> None:
    """Record that a step is under way, if this line of the journal begins it."""
    if entry.phase not in BEGINNINGS:
        return
    if span := _of_step(operation, entry.step, entry.at, undo=is_undoing(entry)):
        span.tell_begun()


def tell_operation(operation: OperationRecord, journal: Sequence[JournalEntry]) -> None:
    """Record the ended operation with all its steps. A repetition records the same spans."""
    whole = _of_operation(operation)
    if whole is None or operation.ended_at is None:
        return
    for attempt in attempts(journal):
        first, last = attempt.first, attempt.last
        span = _of_step(operation, first.step, first.at, undo=attempt.undoing)
        if span is not None and last is not None:
            span.tell_ended(nanoseconds(last.at), error=_error(last))
    state = operation.state
    error = None if state is OperationState.COMPLETED else f"{state}: {operation.note}"
    whole.tell_ended(nanoseconds(operation.ended_at), error=error, state=state.value)


def _error(end: JournalEntry) -> str | None:
    return str(end.detail.get("reason", "failed")) if end.phase == StepPhase.FAILED else None


def _of_operation(operation: OperationRecord) -> LastingSpan | None:
    """Return the operation's span; None if its command belongs to no trace."""
    if (ids := _ids(operation)) is None:
        return None
    return LastingSpan(
        name=f"operation {operation.kind}",
        trace=ids[0],
        span=operation_span(operation.id),
        begun_ns=nanoseconds(operation.begun_at),
        parent=ids[1],
        attributes=_attributes(operation),
    )


def _of_step(operation: OperationRecord, step: str, begun: datetime, *, undo: bool) -> LastingSpan | None:
    if (ids := _ids(operation)) is None:
        return None
    return LastingSpan(
        name=f"{UNDO if undo else 'step'} {step}",
        trace=ids[0],
        span=step_span(operation.id, step, undo=undo),
        begun_ns=nanoseconds(begun),
        parent=operation_span(operation.id),
        attributes=_attributes(operation),
    )


def _ids(operation: OperationRecord) -> tuple[str, str] | None:
    """Return the trace that an operation belongs to, and the span it follows from."""
    return ids_of(operation.traceparent) if operation.traceparent else None


def _attributes(operation: OperationRecord) -> dict[str, str]:
    known = {
        "towpath.operation": operation.id,
        "towpath.job": operation.job,
        "towpath.strategy": operation.strategy,
        "towpath.source": operation.source,
        "towpath.target": operation.target,
        "towpath.asked_by": operation.asked_by,
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def nanoseconds(at: datetime) -> int:
    """Return the Unix nanoseconds of a moment, to the microsecond."""
    return int(at.timestamp()) * 10**9 + at.microsecond * 1000
