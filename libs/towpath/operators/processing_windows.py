"""Plan processing-time windows: aggregates per key of the events that one micro-batch finds.

The streaming plan only reads the events, and keeps no state. `MicroBatchWindow` groups the rows of one
micro-batch as an ordinary batch query. So the same code can compute the window of a range of serial numbers
again later.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.operators import ProcessingWindow
from towpath.operators.aggregates import check_aggregates
from towpath.operators.columns import named
from towpath.operators.grouping import key_of, partials, prepared, values_of
from towpath.operators.results import results_of
from towpath.streams.reading import INPUT, SERIAL, STORED_AT


def rows_of(typed: DataFrame, operator: ProcessingWindow) -> DataFrame:
    """The typed events of the operator's input, ready to be grouped by `MicroBatchWindow`.

    Raises `AnalysisException` if they could not be.
    """
    check_aggregates(operator)
    rows = prepared(typed, operator)
    MicroBatchWindow(operator).results(rows, 0, 0)
    return rows


def check_inputs(assignment: Assignment, operator: ProcessingWindow) -> None:
    """Raise `TowpathError` if micro-batches of the job's inputs cannot be such windows."""
    if len(assignment.inputs) != 1:
        raise TowpathError(
            ErrorCode.INVALID,
            "a processing window covers a range of one stream's serial numbers: merge the inputs first",
            field="inputs",
            value=len(assignment.inputs),
            allowed="1",
        )
    if operator.size_events is None:
        return
    (source,) = assignment.inputs
    if source.subject is not None:
        raise TowpathError(
            ErrorCode.INVALID,
            "a device topic shares its serial numbers with other topics, so a window by number of events "
            "would hold fewer: forward it first, and read the forwarded topic",
            field="inputs.0.topic",
            value=source.name,
            allowed="the output topic of a job",
        )
    bound = assignment.spec.max_events_per_batch
    if bound is not None and bound < operator.size_events:
        raise TowpathError(
            ErrorCode.INVALID,
            "a window by number of events is one micro-batch",
            field="max_events_per_batch",
            value=bound,
            allowed=f"at least size_events = {operator.size_events}, or none",
        )


class MicroBatchWindow:
    """Makes the results of a micro-batch from its rows. Its columns are built once for all micro-batches."""

    def __init__(self, operator: ProcessingWindow) -> None:
        self._keys = [named(f"key {name}") for name in operator.key]
        self._kept = [
            F.expr("count(1)").alias("count"),
            *(F.max(name).alias(name) for name in (SERIAL, INPUT, STORED_AT)),
            *partials(operator),
        ]
        self._values = values_of(operator)
        self._key = key_of(operator)

    def results(self, rows: DataFrame, after: int, through: int) -> DataFrame:
        """One result per key, with the columns of `compile_job`.

        `rows` are those of the serial numbers `after` < n ≤ `through`.
        """
        grouped = rows.groupBy(*self._keys).agg(*self._kept)
        # Without a key Spark makes a group of no rows, too.
        grouped = grouped if self._keys else grouped.where("count > 0")
        return results_of(
            grouped,
            self._values,
            count=F.col("count"),
            key=self._key,
            after=F.lit(after),
            through=F.lit(through),
        )
