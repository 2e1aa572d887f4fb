"""Name the columns of results as `towpath.streams.encoding` expects them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from towpath.operators.columns import named
from towpath.prediction.packing import PACKED, unpacked_batches
from towpath.streams import encoding
from towpath.streams.reading import INPUT, SERIAL, STORED_AT, TEXT

CARRIED = (encoding.COUNT, encoding.KEY, encoding.WINDOW, encoding.CLOSED, encoding.IDENTITY)
"""Columns of a result that stay, unless a later step of the chain gives others."""

FORM = "columns of packed rows"
"""Metadata of the column `PACKED`: the schema of what it holds."""


def results_of(
    rows: DataFrame,
    values: Column | Sequence[Column] = (),
    *beside: Column,
    own_text: Column | None = None,
    count: Column | None = None,
    key: Column | None = None,
    window: Column | None = None,
    closed: Column | None = None,
    after: Column | None = None,
    through: Column | None = None,
    identity: Column | None = None,
) -> DataFrame:
    """One result per row, which has the row's `serial`, `input` and `stored_at`.

    `values` are the members of the result's values, or one column with JSON objects as text. All others have
    the names and meanings of the constants of `encoding`. What stands `beside` them is of no meaning.
    """
    if own_text is None:
        own_values = {encoding.VALUES: values if isinstance(values, Column) else struct_of(values)}
    else:
        own_values = {encoding.OWN_TEXT: own_text}
    parts = {
        **own_values,
        encoding.COUNT: count,
        encoding.KEY: key,
        encoding.WINDOW: window,
        encoding.CLOSED: closed,
        encoding.AFTER: after,
        encoding.THROUGH: through,
        encoding.IDENTITY: identity,
    }
    for name in CARRIED:
        if parts[name] is None and carried_name(name) in rows.columns:
            parts[name] = named(carried_name(name))
    own = [named(name) for name in (SERIAL, INPUT, STORED_AT, TEXT) if name in rows.columns]
    return rows.select(*own, *beside, *(part.alias(name) for name, part in parts.items() if part is not None))


def struct_of(members: Sequence[Column]) -> Column:
    """The struct of these members. Without any, an empty object: Spark has no empty structs."""
    return F.struct(*members) if members else F.lit("{}")


def carried_name(name: str) -> str:
    """The name of a result's column while the next step computes: no field has a space in its name."""
    return f"carried {name}"


def carried_of(results: DataFrame) -> list[Column]:
    """The columns of results that stay with the next step's: those of `CARRIED`, and the event's text."""
    kept = [named(name).alias(carried_name(name)) for name in CARRIED if name in results.columns]
    return [*kept, named(TEXT)] if TEXT in results.columns else kept


def unpacked_results(results: DataFrame) -> DataFrame:
    """The results of a step as rows, if it has packed them."""
    if PACKED not in results.columns:
        return results
    form = json.loads(results.schema[PACKED].metadata[FORM])

    def unpack(batches: Any) -> Any:
        return unpacked_batches(batches)

    return results.mapInArrow(unpack, StructType.fromJson(form))
