"""User code for `python.yaml`: departures whose delay is remarkable for the distance they fly."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql


def remarkable(departures: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """Keep departures later than `minutes_per_100_miles` allows, with the excess in minutes.

    The columns `serial`, `input` and `stored_at` stay: they identify each row's event.
    """
    allowed = sql.col("distance") / 100.0 * float(parameters["minutes_per_100_miles"])
    return (
        departures.withColumn("excess", sql.round(sql.col("delay") - allowed, 1))
        .withColumn("hour", sql.hour("departed_at"))
        .where(sql.col("excess") > 0)
        .select("serial", "input", "stored_at", "id", "carrier", "hour", "delay", "excess")
    )
