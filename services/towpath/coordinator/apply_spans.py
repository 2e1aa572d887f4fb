"""What an apply looks like in a trace: one span, whose children are its operations."""

from __future__ import annotations

from contextlib import AbstractContextManager

from towpath.contracts.pipeline import ApplyState
from towpath.coordinator.pipeline_record import ApplyRecord
from towpath.protocols.spans import nanoseconds
from towpath.telemetry.tracing import continuing, ids_of, record, record_begun, span_of, traceparent_of


def apply_span(apply: str) -> str:
    """The id of an apply's span."""
    return span_of("apply", apply)


def in_apply(apply: ApplyRecord) -> AbstractContextManager[None]:
    """Work inside belongs to the apply's span, if it is traced."""
    ids = _ids(apply)
    return continuing(traceparent_of(ids[0], apply_span(apply.id)) if ids else None)


def tell_apply_begun(apply: ApplyRecord) -> None:
    """The apply goes on: a trace that is looked at meanwhile has it already."""
    if ids := _ids(apply):
        record_begun(
            _name(apply),
            begun_ns=nanoseconds(apply.begun_at),
            trace=ids[0],
            span=apply_span(apply.id),
            parent=ids[1],
            attributes=_attributes(apply),
        )


def tell_apply(apply: ApplyRecord) -> None:
    """The ended apply. Told again, by whomever, it is the same."""
    ids = _ids(apply)
    if ids is None or apply.ended_at is None:
        return
    record(
        _name(apply),
        begun_ns=nanoseconds(apply.begun_at),
        ended_ns=nanoseconds(apply.ended_at),
        trace=ids[0],
        span=apply_span(apply.id),
        parent=ids[1],
        attributes={**_attributes(apply), "towpath.state": apply.state.value},
        error=None if apply.state is ApplyState.COMPLETED else f"{apply.state}: {apply.note}",
    )


def _ids(apply: ApplyRecord) -> tuple[str, str] | None:
    return ids_of(apply.traceparent) if apply.traceparent else None


def _name(apply: ApplyRecord) -> str:
    return f"delete {apply.pipeline}" if apply.delete else f"apply {apply.pipeline}"


def _attributes(apply: ApplyRecord) -> dict[str, str | int]:
    return {"towpath.apply": apply.id, "towpath.pipeline": apply.pipeline, "towpath.version": apply.version}
