"""Plan processing-time windows: aggregates per key of the events that one micro-batch finds.

The streaming plan only reads and types the events, and keeps no state. `MicroBatchWindow` groups the rows of
one micro-batch as an ordinary batch query, and makes the messages. So the same code can compute the window of
a range of serial numbers again later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment
from towpath.contracts.operators import ProcessingWindow
from towpath.operators.aggregates import check_aggregates
from towpath.operators.columns import INPUT, MICROSECONDS, REASON, SERIAL, STORED_AT, TEXT, json_object, named
from towpath.operators.grouping import judged, key_columns, partials_sql, prepared, values_of
from towpath.operators.publication import Publication, ResultParts

_AFTER = "window after"
_THROUGH = "window through"
_REJECTED_SERIAL = "rejected serial"


def rows_of(parsed: DataFrame, operator: ProcessingWindow, publication: Publication) -> DataFrame:
    """The typed rows of the operator's input, ready to be grouped by `MicroBatchWindow`.

    Raises `AnalysisException` if they could not be.
    """
    check_aggregates(operator)
    rows = prepared(judged(parsed, operator.key), operator)
    MicroBatchWindow(operator, publication).messages(rows, 0, 0)
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
    """Makes the messages of a micro-batch from its rows. Its columns are built once for all micro-batches."""

    def __init__(self, operator: ProcessingWindow, publication: Publication) -> None:
        rejected_serial = F.when(named(REASON).isNotNull(), F.col(SERIAL)).alias(_REJECTED_SERIAL)
        # A rejected event is a group of its own, so that the rows are read once. Strings as grouping columns
        # are cheap where they are null; as aggregates they would make Spark sort.
        keys = [named(f"key {name}") for name in operator.key]
        self._groups = [*keys, rejected_serial, named(REASON), named(TEXT)]
        kept = {
            "count": "count(1)",
            SERIAL: f"max({SERIAL})",
            INPUT: f"max({INPUT})",
            STORED_AT: f"max({STORED_AT})",
            **partials_sql(operator),
        }
        self._kept = [F.expr(sql).alias(name) for name, sql in kept.items()]
        self._messages = publication.columns(_message_id(operator, publication), _parts(operator))

    def messages(self, rows: DataFrame, after: int, through: int) -> DataFrame:
        """One result per key, and each rejected event, with the columns of `compile_job`.

        `rows` are those of the serial numbers `after` < n ≤ `through`.
        """
        grouped = rows.groupBy(*self._groups).agg(*self._kept)
        placed = grouped.select("*", F.lit(after).alias(_AFTER), F.lit(through).alias(_THROUGH))
        return placed.select(self._messages)


def _parts(operator: ProcessingWindow) -> ResultParts:
    return ResultParts(
        values=values_of(operator),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        after=named(_AFTER),
        through=named(_THROUGH),
        count=F.col("count"),
        key=json_object(key_columns(operator)) if operator.key else None,
    )


def _message_id(operator: ProcessingWindow, publication: Publication) -> Column:
    key = json_object(key_columns(operator), MICROSECONDS) if operator.key else None
    return publication.identities.of_range(named(_AFTER), named(_THROUGH), key)
