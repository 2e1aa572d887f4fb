"""Plan predictions: one crossing to Python for window, aggregates and model together.

Spark keeps the state of a key as one binary column, and the checkpoint has it. `applyInPandasWithState` gives
all groups of a micro-batch to a worker in one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupStateTimeout
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from towpath.contracts.fields import FieldType
from towpath.contracts.prediction import Predict
from towpath.operators.code_loading import loaded_entry, no_entry
from towpath.operators.columns import named, union
from towpath.operators.job_events import JobEvents
from towpath.operators.plain_columns import PlainColumn, plain_column
from towpath.operators.results import carried_name, results_of
from towpath.prediction.groups import NUMBER, ORDER, TIME, FieldColumn, KeyGroups
from towpath.prediction.plan import Plan
from towpath.streams.encoding import CLOSED
from towpath.streams.reading import INPUT, SERIAL, STORED_AT

_KEY = "key "
_CARRIED = "carried part "
_TYPES = {FieldType.STRING: "string", FieldType.BOOLEAN: "boolean"}
"""Types of what is written that travel as they are. All others are doubles: a time is one of microseconds."""
_SPARK: dict[str, DataType] = {"string": StringType(), "boolean": BooleanType(), "double": DoubleType()}

_STATE = "state binary"


def predictions_of(events: JobEvents, operator: Predict, written: dict[str, FieldType]) -> DataFrame:
    """The events that have a result, with the fields `written` beside their own."""
    placing = [*operator.key, *([operator.time] if operator.time else [])]
    rows = union(events.typed(operator.fields, required=placing))
    carried = _taken_apart(rows)
    with _loaded(rows, operator) as made_by:
        plan = Plan.of(operator, made_by)
        groups = _groups(plan, operator, carried, written)
        made = _computed(_travelling(rows, operator, plan, carried), groups, _parts(carried))
    whole = made.select(
        SERIAL,
        *(part.whole.alias(name) for name, part in carried.items()),
        *(_as_written(name, kind).alias(name) for name, kind in written.items()),
    )
    return results_of(whole, [F.col(name) for name in (*operator.fields, *written)])


def _taken_apart(rows: DataFrame) -> dict[str, PlainColumn]:
    """All columns of the rows but the serial number, by name."""
    others = [field for field in rows.schema if field.name != SERIAL]
    return {
        field.name: plain_column(
            named(field.name), field.dataType, f"{_CARRIED}{n}", nullable=field.name != STORED_AT
        )
        for n, field in enumerate(others)
    }


@contextmanager
def _loaded(rows: DataFrame, operator: Predict) -> Iterator[Callable[..., Any] | None]:
    """The class of the user; inside the block functions take its package along to their workers."""
    user = operator.user_model
    if user is None:
        yield None
        return
    with loaded_entry(rows.sparkSession.sparkContext, user) as made_by:
        if not callable(getattr(made_by, "predict", None)):
            raise no_entry("is no class with a method predict", user)
        yield made_by


def _travelling(rows: DataFrame, operator: Predict, plan: Plan, carried: dict[str, PlainColumn]) -> DataFrame:
    """The rows as they travel. Events of different inputs have no order, so the input is part of the key."""
    keys = {f"{_KEY}{n}": F.col(name) for n, name in enumerate([INPUT, *operator.key])}
    closed = carried_name(CLOSED)
    # Windows of one key close in the order of their ends, whatever their newest event is.
    order = {ORDER: F.unix_micros(named(closed)["end"])} if closed in rows.columns else {}
    return rows.select(
        SERIAL,
        F.unix_micros(F.col(operator.time or STORED_AT)).alias(TIME),
        *(column.alias(name) for name, column in {**order, **keys}.items()),
        *(F.col(name).cast("double").alias(f"{NUMBER}{name}") for name in plan.numbers),
        *(column for part in carried.values() for column, _ in part.parts),
    )


def _groups(
    plan: Plan, operator: Predict, carried: dict[str, PlainColumn], written: dict[str, FieldType]
) -> KeyGroups:
    fields = {
        name: FieldColumn(carried[name].value, carried[name].is_null, str(kind))
        for name, kind in operator.fields.items()
        if plan.kind.takes_all
    }
    types = {name: _TYPES.get(kind, "double") for name, kind in written.items()}
    return KeyGroups(plan, [field.name for field in _parts(carried)], types, fields)


def _parts(carried: dict[str, PlainColumn]) -> list[StructField]:
    return [field for column in carried.values() for _, field in column.parts]


def _computed(rows: DataFrame, groups: KeyGroups, parts: list[StructField]) -> DataFrame:
    """The results of all keys. Spark has no state outside a stream: there a key's events are all at once."""
    made = [StructField(name, _SPARK[kind]) for name, kind in groups.written.items()]
    schema = StructType([StructField(SERIAL, LongType()), *parts, *made])
    grouped = rows.groupBy(*(named(name) for name in rows.columns if name.startswith(_KEY)))

    # Functions of their own, because Spark counts the parameters of methods with `self`.
    def whole(frame: Any) -> Any:
        return groups.whole(frame)

    def stateful(key: Any, frames: Any, state: Any) -> Any:
        return groups.stateful(frames, state)

    if not rows.isStreaming:
        return grouped.applyInPandas(whole, schema)
    return grouped.applyInPandasWithState(stateful, schema, _STATE, "append", GroupStateTimeout.NoTimeout)


def _as_written(name: str, kind: FieldType) -> Column:
    """A computed column in its type. Numbers that JSON cannot write are null."""
    if kind in _TYPES:
        return F.col(name)
    number = F.when(F.abs(F.col(name)) < float("inf"), F.col(name))
    if kind is FieldType.TIMESTAMP:
        return F.timestamp_micros(number.cast("bigint"))
    return number.cast("bigint") if kind is FieldType.LONG else number
