"""Prepare events for both window operators: name the columns, and prepare aggregates."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.operators.aggregates import Aggregating, partial_aggregates, value_of
from towpath.operators.columns import named
from towpath.operators.results import struct_of
from towpath.streams.reading import INPUT, SERIAL, STORED_AT


def prepared(rows: DataFrame, operator: Aggregating, *more: Column) -> DataFrame:
    """All rows, with column names that no field has.

    Columns are `serial`, `input`, `stored_at`, `more`, the key as `key <field>`, and for each partial
    aggregate the column that it aggregates as `argument <name>`.
    """
    placed = rows.select(
        SERIAL,
        INPUT,
        STORED_AT,
        *more,
        *(F.col(name).alias(f"key {name}") for name in operator.key),
        *(F.col(name).alias(f"of {name}") for name in _used(operator)),
    )
    arguments = [p.argument.alias(f"argument {name}") for name, p in partial_aggregates(operator).items()]
    return placed.select("*", *arguments).drop(*(f"of {name}" for name in _used(operator)))


def partials(operator: Aggregating) -> list[Column]:
    """The values that are kept per window and key, over the columns of `prepared`."""
    parts = partial_aggregates(operator)
    kept = {name: part.function.format(f"`argument {name}`") for name, part in parts.items()}
    return [F.expr(sql).alias(name) for name, sql in kept.items()]


def values_of(operator: Aggregating) -> list[Column]:
    """The aggregates' values under their names."""
    return [
        value_of(aggregate, operator.fields).alias(name) for name, aggregate in operator.aggregates.items()
    ]


def key_of(operator: Aggregating) -> Column | None:
    """The key under the names of its fields; None where there is none."""
    return struct_of([named(f"key {name}").alias(name) for name in operator.key]) if operator.key else None


def _used(operator: Aggregating) -> list[str]:
    """The fields that are aggregated."""
    return sorted({aggregate.field for aggregate in operator.aggregates.values() if aggregate.field})
