"""User code of the benchmark `handover-state`: it passes on tokens that it has not seen before."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

SLICE_MS = 200
"""Length of a slice of time: far shorter than a trigger interval, so that each micro-batch has a result."""


def first_reports(events: DataFrame, parameters: dict[str, Any]) -> DataFrame:
    """Return the first report of each token; for the main load's `shared` token, the first of each slice.

    The job never forgets a token. Results are those slices, and every report whose number `every`
    divides. No result depends on which of several reports came first.
    """
    is_shared = F.col("token") == parameters["shared"]
    at_ms = F.unix_millis(F.col("at"))
    begin_of_slice = F.when(is_shared, F.timestamp_millis(at_ms - at_ms % SLICE_MS))
    first = events.withColumn("slice", begin_of_slice).dropDuplicates(["slice", "token"])
    shown = first.where(is_shared | (F.col("n") % int(parameters["every"]) == 0))
    begin = F.coalesce(F.col("slice"), F.col("at"))
    begin_ms = F.unix_millis(begin)
    # No two reports have the same number: as the window's length it tells those of one moment apart.
    length_ms = F.when(is_shared, F.lit(SLICE_MS)).otherwise(F.col("n"))
    window = F.struct(begin.alias("start"), F.timestamp_millis(begin_ms + length_ms).alias("end"))
    return shown.select(
        begin_ms.alias("serial"),  # Results are published in this order.
        begin.alias("stored_at"),
        window.alias("window"),
        F.concat_ws("/", begin_ms, length_ms).alias("report"),
    )
