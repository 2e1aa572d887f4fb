"""Prepare events for both window operators: judge the key, name the columns, prepare aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.operators.aggregates import Aggregating, partial_aggregates, value_of
from towpath.operators.columns import INPUT, REASON, SERIAL, STORED_AT, TEXT, json_object, named


def judged(rows: DataFrame, placing: Sequence[str]) -> DataFrame:
    """The rows, rejected where a field is missing that places the event in a window."""
    missing = [F.when(F.col(name).isNull(), F.lit(f"field '{name}': missing or null")) for name in placing]
    return rows.withColumn(REASON, F.coalesce(named(REASON), *missing))


def prepared(rows: DataFrame, operator: Aggregating, *more: Column) -> DataFrame:
    """All rows, with column names that no field has.

    Columns are `serial`, `input`, `stored_at`, reason and text of rejected events, `more`, the key as
    `key <field>`, and for each partial aggregate the column that it aggregates as `argument <name>`.
    """
    # Good events lose their text, which would only make the exchange larger.
    text = F.when(named(REASON).isNotNull(), named(TEXT))
    placed = rows.select(
        SERIAL,
        INPUT,
        STORED_AT,
        named(REASON),
        text.alias(TEXT),
        *more,
        *(F.col(name).alias(f"key {name}") for name in operator.key),
        *(F.col(name).alias(f"of {name}") for name in _used(operator)),
    )
    arguments = [p.argument.alias(f"argument {name}") for name, p in partial_aggregates(operator).items()]
    return placed.select("*", *arguments).drop(*(f"of {name}" for name in _used(operator)))


def partials_sql(operator: Aggregating) -> dict[str, str]:
    """Column → SQL of each value that is kept per window and key, over the columns of `prepared`."""
    parts = partial_aggregates(operator)
    return {name: part.function.format(f"`argument {name}`") for name, part in parts.items()}


def values_of(operator: Aggregating) -> Column:
    """JSON object of the aggregates' values."""
    return json_object(
        [value_of(aggregate, operator.fields).alias(name) for name, aggregate in operator.aggregates.items()]
    )


def key_columns(operator: Aggregating) -> list[Column]:
    """The key under the names of its fields."""
    return [named(f"key {name}").alias(name) for name in operator.key]


def _used(operator: Aggregating) -> list[str]:
    """The fields that are aggregated."""
    return sorted({aggregate.field for aggregate in operator.aggregates.values() if aggregate.field})
