"""Plan predictions: one crossing to Python for window, aggregates and model together.

The rows of a micro-batch are packed by key first, see `towpath.prediction.packing`, and results stay packed
until they are encoded, or until the next step of a chain reads them. Spark keeps the state of a key as one
binary column, and the checkpoint has it. `applyInPandasWithState` gives all groups of a micro-batch to a
worker in one stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from towpath.contracts.fields import FieldType
from towpath.contracts.prediction import Predict
from towpath.operators.code_loading import loaded_entry, no_entry
from towpath.operators.columns import named, union
from towpath.operators.group_state import computed
from towpath.operators.job_events import JobEvents
from towpath.operators.results import CARRIED, FORM, carried_name
from towpath.prediction.groups import NUMBER, ORDER, KeyGroups
from towpath.prediction.packing import PACKED, Packing
from towpath.prediction.plan import Plan
from towpath.streams.encoding import CLOSED, VALUES
from towpath.streams.reading import INPUT, SERIAL, STORED_AT, TEXT

_KEY = "key "
_SPARK: dict[FieldType, DataType] = {
    FieldType.STRING: StringType(),
    FieldType.BOOLEAN: BooleanType(),
    FieldType.DOUBLE: DoubleType(),
    FieldType.LONG: LongType(),
    FieldType.TIMESTAMP: TimestampType(),
}


def predictions_of(events: JobEvents, operator: Predict, written: dict[str, FieldType]) -> DataFrame:
    """The events that have a result, with the fields `written` beside their own. They are packed."""
    placing = [*operator.key, *([operator.time] if operator.time else [])]
    rows = union(events.typed(operator.fields, required=placing))
    own = [name for name in (SERIAL, INPUT, STORED_AT, TEXT) if name in rows.columns]
    others = {name: carried_name(name) for name in CARRIED if carried_name(name) in rows.columns}
    with _loaded(rows, operator) as made_by:
        groups = KeyGroups(
            plan=Plan.of(operator, made_by),
            time=operator.time or STORED_AT,
            fields=[*operator.fields],
            written={name: str(kind) for name, kind in written.items()},
            values=VALUES,
            carried={**{name: name for name in own}, **others},
        )
        form = _form(rows, groups, written)
        schema = StructType([StructField(PACKED, BinaryType(), metadata={FORM: form.json()})])
        packed = _packed(rows, operator, groups)
        return computed(packed, [name for name in packed.columns if name != PACKED], groups, schema)


def _form(rows: DataFrame, groups: KeyGroups, written: dict[str, FieldType]) -> StructType:
    """The columns of unpacked results, as `results_of` would name them."""
    values = [StructField(name, rows.schema[name].dataType) for name in groups.fields]
    values += [StructField(name, _SPARK[kind]) for name, kind in written.items()]
    carried = [StructField(name, rows.schema[column].dataType) for name, column in groups.carried.items()]
    return StructType([*carried, StructField(VALUES, StructType(values))])


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


def _packed(rows: DataFrame, operator: Predict, groups: KeyGroups) -> DataFrame:
    """The rows by key. Events of different inputs have no order, so the input is part of the key."""
    keys = {f"{_KEY}{n}": F.col(name) for n, name in enumerate([INPUT, *operator.key])}
    closed = carried_name(CLOSED)
    # Windows of one key close in the order of their ends, whatever their newest event is.
    order = {ORDER: F.unix_micros(named(closed)["end"])} if closed in rows.columns else {}
    travelling = rows.select(
        *map(named, rows.columns),
        *(column.alias(name) for name, column in {**order, **keys}.items()),
        *(F.col(name).cast("double").alias(f"{NUMBER}{name}") for name in groups.plan.numbers),
    )
    if rows.isStreaming:
        travelling = travelling.coalesce(1)  # State has one partition: without this, Spark shuffles for it.
    by_key = StructType([*(travelling.schema[name] for name in keys), StructField(PACKED, BinaryType())])
    packing = Packing([*keys])

    def pack(batches: Any) -> Any:
        return packing.by_key(batches)

    return travelling.mapInArrow(pack, by_key)
