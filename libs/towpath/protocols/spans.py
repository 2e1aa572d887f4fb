"""What an operation looks like in a trace: one span, and one a step, all made from record and journal.

Their ids follow from the operation's. So a coordinator that was killed leaves nothing to be completed: its
successor tells of the same spans, and what agents did for a step already has that step as its parent.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from towpath.contracts.commands import JournalEntry, OperationState
from towpath.protocols.course import Phase
from towpath.protocols.record import OperationRecord
from towpath.telemetry.tracing import continuing, ids_of, record, record_begun, span_of, traceparent_of

_BEGINS = frozenset({Phase.BEGUN, Phase.COMPENSATING})

UNDO = "undo"


def operation_span(operation: str) -> str:
    """The id of an operation's span."""
    return span_of("operation", operation)


def step_span(operation: str, step: str, *, undo: bool = False) -> str:
    """The id of the span of a step, or of what takes it back."""
    return span_of(operation, step, UNDO) if undo else span_of(operation, step)


def in_operation(operation: OperationRecord) -> AbstractContextManager[None]:
    """Work inside belongs to the operation's span, if it is traced."""
    return _inside(operation, operation_span(operation.id))


def in_step(operation: OperationRecord, step: str, *, undo: bool = False) -> AbstractContextManager[None]:
    """Work inside belongs to the step's span, if the operation is traced."""
    return _inside(operation, step_span(operation.id, step, undo=undo))


def _inside(operation: OperationRecord, span: str) -> AbstractContextManager[None]:
    ids = _ids(operation)
    return continuing(traceparent_of(ids[0], span) if ids else None)


def tell_operation_begun(operation: OperationRecord) -> None:
    """The operation goes on: a trace that is looked at meanwhile has it already."""
    if ids := _ids(operation):
        record_begun(
            _name(operation),
            begun_ns=nanoseconds(operation.begun_at),
            trace=ids[0],
            span=operation_span(operation.id),
            parent=ids[1],
            attributes=_attributes(operation),
        )


def tell_step_begun(operation: OperationRecord, entry: JournalEntry) -> None:
    """The same for a step, by the line of the journal that begins it; other lines begin none."""
    if entry.phase in _BEGINS and (ids := _ids(operation)):
        undo = entry.phase == Phase.COMPENSATING
        record_begun(
            _step_name(entry.step, undo=undo),
            begun_ns=nanoseconds(entry.at),
            trace=ids[0],
            span=step_span(operation.id, entry.step, undo=undo),
            parent=operation_span(operation.id),
            attributes=_attributes(operation),
        )


def tell_operation(operation: OperationRecord, journal: Sequence[JournalEntry]) -> None:
    """The ended operation, with all its steps. Told again, by whomever, it is the same."""
    ids = _ids(operation)
    if ids is None or operation.ended_at is None:
        return
    begun: dict[tuple[str, bool], datetime] = {}
    for entry in journal:
        undo = _is_undo(entry)
        if entry.phase in _BEGINS:
            begun.setdefault((entry.step, undo), entry.at)
        else:
            _tell_step(operation, ids[0], entry, begun.get((entry.step, undo), entry.at), undo=undo)
    failed = operation.state is not OperationState.COMPLETED
    record(
        _name(operation),
        begun_ns=nanoseconds(operation.begun_at),
        ended_ns=nanoseconds(operation.ended_at),
        trace=ids[0],
        span=operation_span(operation.id),
        parent=ids[1],
        attributes={**_attributes(operation), "towpath.state": operation.state.value},
        error=f"{operation.state}: {operation.note}" if failed else None,
    )


def _tell_step(
    operation: OperationRecord, trace: str, entry: JournalEntry, begun: datetime, *, undo: bool
) -> None:
    failed = entry.phase == Phase.FAILED
    record(
        _step_name(entry.step, undo=undo),
        begun_ns=nanoseconds(begun),
        ended_ns=nanoseconds(entry.at),
        trace=trace,
        span=step_span(operation.id, entry.step, undo=undo),
        parent=operation_span(operation.id),
        attributes=_attributes(operation),
        error=str(entry.detail.get("reason", "failed")) if failed else None,
    )


def _is_undo(entry: JournalEntry) -> bool:
    return entry.phase in (Phase.COMPENSATING, Phase.COMPENSATED) or bool(entry.detail.get("undo"))


def _ids(operation: OperationRecord) -> tuple[str, str] | None:
    """The trace an operation belongs to, and the span it follows from."""
    return ids_of(operation.traceparent) if operation.traceparent else None


def _name(operation: OperationRecord) -> str:
    return f"operation {operation.kind}"


def _step_name(step: str, *, undo: bool) -> str:
    return f"{UNDO if undo else 'step'} {step}"


def _attributes(operation: OperationRecord) -> dict[str, Any]:
    known = {
        "towpath.operation": operation.id,
        "towpath.job": operation.job,
        "towpath.strategy": operation.strategy,
        "towpath.source": operation.source,
        "towpath.target": operation.target,
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def nanoseconds(at: datetime) -> int:
    """Unix nanoseconds of a moment, to the microsecond."""
    return int(at.timestamp()) * 10**9 + at.microsecond * 1000
