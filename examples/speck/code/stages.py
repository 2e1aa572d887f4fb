"""User code for `listing-1.yaml` and `listing-2.yaml`: one function for each stage of the pipeline.

SpecK's descriptions declare no fields, so each event comes as one JSON object in `value`, and goes on as one.
The columns `serial`, `input` and `stored_at` stay: they identify the event that a result comes from.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

IDENTITY = ("serial", "input", "stored_at")

LATE_MINUTES = 15.0


def departed(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """A: flights that have left. A cancelled one has no time of departure, and no delay."""
    return events.where(_field("departed_at").isNotNull() & _delay().isNotNull())


def late(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """B: flights that left late."""
    return events.where(_delay() > LATE_MINUTES)


def essential(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """C: what later stages need of a flight."""
    return _published(events, _number("id").alias("id"), _carrier(), _delay().alias("delay"))


def in_hours(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """C2: the same, with the delay in hours beside."""
    hours = sql.round(_delay() / 60.0, 3).alias("hours")
    return _published(events, _number("id").alias("id"), _carrier(), _delay().alias("delay"), hours)


def judged(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """D: whether a flight counts as late."""
    verdict = (_delay() > LATE_MINUTES).alias("late")
    return _published(events, _number("id").alias("id"), _carrier(), _delay().alias("delay"), verdict)


def _published(events: DataFrame, *fields: Column) -> DataFrame:
    return events.select(*IDENTITY, sql.to_json(sql.struct(*fields)).alias("value"))


def _field(name: str) -> Column:
    return sql.get_json_object("value", f"$.{name}")


def _carrier() -> Column:
    return _field("carrier").alias("carrier")


def _number(name: str) -> Column:
    return _field(name).cast("long")


def _delay() -> Column:
    return _field("delay").cast("double")
