"""The `window` operator: aggregates per window and key, published once, when the window closes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from towpath.contracts.operators import (
    AggregateFunction,
    FieldType,
    Operator,
    ProcessingWindow,
    Window,
    last_step,
)
from towpath.operators.kind import OperatorKind, Schema, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from towpath.operators.job_events import JobEvents

BOUNDS = ("window_start", "window_end")
"""Fields of a result that say where its window begins and ends."""


def compile_window(operator: Window, events: JobEvents) -> DataFrame:
    """The closed windows."""
    from towpath.operators.windows import windows_of

    return windows_of(events.typed(operator.fields, required=placing(operator)), operator)


def aggregate_fields(operator: Window | ProcessingWindow) -> Schema:
    """The fields of a result that has a key, a count and aggregates."""
    schema: Schema = {name: operator.fields[name] for name in operator.key}
    schema["count"] = FieldType.LONG
    for name, aggregate in operator.aggregates.items():
        match aggregate.function:
            case AggregateFunction.COUNT | AggregateFunction.DISTINCT:
                schema[name] = FieldType.LONG
            case AggregateFunction.SERIES:
                schema[name] = FieldType.STRING
            case AggregateFunction.MIN | AggregateFunction.MAX:
                schema[name] = operator.fields[aggregate.field or ""]
            case _:
                schema[name] = FieldType.DOUBLE
    return schema


def placing(operator: Window) -> list[str]:
    """The fields that place an event in a window. An event that lacks one is rejected."""
    return [*operator.key, *([operator.event_time] if operator.event_time else [])]


def state(operator: Window) -> dict[str, Any]:
    """The operator without fields that only have their type checked: they leave no trace in the state."""
    used = {*placing(operator), *(aggregate.field for aggregate in operator.aggregates.values())}
    fields = {name: kind for name, kind in operator.fields.items() if name in used}
    return {**operator.model_dump(exclude={"name", "punctuates", "precision"}), "fields": fields}


def punctuated_ms(operator: Operator) -> int:
    """Return the distance of an operator's punctuations, milliseconds; 0 if it makes none."""
    last = last_step(operator)
    return round((last.size_s or 0) * 1000) if isinstance(last, Window) and last.punctuates else 0


def nondeterminism(operator: Window) -> str | None:
    """A watermark of zero makes late events count or not, as micro-batches happen to be cut.

    So do totals with their last digits.
    """
    if any(one.function is AggregateFunction.TOTAL for one in operator.aggregates.values()):
        return "its totals are added as events come, and may differ in the last digits"
    if operator.event_time is None or operator.watermark_s > 0:
        return None
    return (
        "its windows wait for no late event (watermark_s is 0), and which events count may depend on the "
        "micro-batches they fall into"
    )


WINDOW = register(
    OperatorKind(
        model=Window,
        compile=compile_window,
        reads=lambda operator: operator.fields,
        writes=lambda operator: {**aggregate_fields(operator), **dict.fromkeys(BOUNDS, FieldType.TIMESTAMP)},
        rejects=lambda operator: bool(placing(operator)),
        state=state,
        watermarked=lambda operator: True,
        nondeterminism=nondeterminism,
    )
)
