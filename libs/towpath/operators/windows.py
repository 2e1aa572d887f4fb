"""The `window` operator: aggregates per window and key, published once, when the window closes."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Window, WindowShape
from towpath.operators.aggregates import check_aggregates, partial_aggregates, value_of
from towpath.operators.columns import (
    INPUT,
    MICROSECONDS,
    REASON,
    SERIAL,
    STORED_AT,
    json_object,
    read_once,
)
from towpath.operators.json_events import named
from towpath.operators.publication import Publication, ResultParts

_TIME = "event time"
_WINDOW = "event window"


def compile_window(parsed: list[DataFrame], operator: Window, publication: Publication) -> DataFrame:
    """Results and rejected events of a window over the typed rows of each input.

    Rejected events cannot go through the aggregation: they have no place in event time, and would
    come out when a window closes, if ever. They take a stateless branch beside it, and `read_once`
    keeps the source from being read for each branch.
    """
    check_window(operator)
    judged = [read_once(_judged(rows, operator)) for rows in parsed]
    # One watermark per input: Spark takes the least, so a slow input holds the windows open.
    timed = [_timed(rows, operator) for rows in judged]
    closed = _aggregated(reduce(DataFrame.unionByName, timed), operator, publication)
    results = publication.of_results(
        closed, _message_id(operator, publication), _parts(operator, publication)
    )
    rejected = [publication.of_rejected(rows) for rows in judged]
    return reduce(DataFrame.unionByName, rejected, results)


def check_window(operator: Window) -> None:
    """Raise `TowpathError` for what the contract allows but Spark cannot compute."""
    check_aggregates(operator)
    if operator.size_s and operator.slide_s and operator.slide_s > operator.size_s:
        raise TowpathError(
            ErrorCode.INVALID,
            "windows would not cover all of time",
            field="operator.slide_s",
            value=operator.slide_s,
            allowed=f"at most size_s = {operator.size_s:g}",
        )


def _judged(rows: DataFrame, operator: Window) -> DataFrame:
    """Adds the window's own reason to reject: no event time, or a part of the key is missing."""
    placing = [*operator.key, *([operator.event_time] if operator.event_time else [])]
    missing = [F.when(F.col(name).isNull(), F.lit(f"field '{name}': missing or null")) for name in placing]
    return rows.withColumn(REASON, F.coalesce(named(REASON), *missing))


def _timed(rows: DataFrame, operator: Window) -> DataFrame:
    """Good rows under names that no field has, with their watermark."""
    used = sorted({aggregate.field for aggregate in operator.aggregates.values() if aggregate.field})
    good = rows.where(named(REASON).isNull()).select(
        SERIAL,
        INPUT,
        STORED_AT,
        F.col(operator.event_time or STORED_AT).alias(_TIME),
        *(F.col(name).alias(f"key {name}") for name in operator.key),
        *(F.col(name).alias(f"of {name}") for name in used),
    )
    return good.withWatermark(f"`{_TIME}`", _interval(operator.watermark_s))


def _aggregated(rows: DataFrame, operator: Window, publication: Publication) -> DataFrame:
    keys = [named(f"key {name}") for name in operator.key]
    if operator.shape is WindowShape.SESSION and not keys:
        # Spark sessions need a key; this one is the same for all, which the optimiser cannot know.
        keys = [(F.col(SERIAL) < F.lit(0)).alias("key of all")]
    frontier = [F.max(SERIAL).alias(SERIAL), F.max(STORED_AT).alias(STORED_AT)]
    if publication.has_several_inputs:
        frontier = [
            F.max(F.when(F.col(INPUT) == position, F.col(column))).alias(f"{column} {position}")
            for position in range(len(publication.inputs))
            for column in (SERIAL, STORED_AT)
        ]
    partial = [part.alias(name) for name, part in partial_aggregates(operator).items()]
    closed = rows.groupBy(_window(operator).alias(_WINDOW), *keys).agg(
        F.count(F.lit(1)).alias("count"), *frontier, *partial
    )
    return _with_newest(closed, publication) if publication.has_several_inputs else closed


def _with_newest(closed: DataFrame, publication: Publication) -> DataFrame:
    """`serial`, `input` and `stored_at` of the event stored last; of equals, that of the last input."""
    candidates = [
        F.when(
            named(f"serial {position}").isNotNull(),
            F.struct(
                named(f"stored_at {position}").alias(STORED_AT),
                F.lit(position).alias(INPUT),
                named(f"serial {position}").alias(SERIAL),
            ),
        )
        for position in range(len(publication.inputs))
    ]
    newest = closed.withColumn("newest event", F.greatest(*candidates))
    return newest.select("*", "`newest event`.*")


def _window(operator: Window) -> Column:
    match operator.shape:
        case WindowShape.TUMBLING:
            return F.window(named(_TIME), _interval(operator.size_s))
        case WindowShape.SLIDING:
            return F.window(named(_TIME), _interval(operator.size_s), _interval(operator.slide_s))
        case WindowShape.SESSION:
            return F.session_window(named(_TIME), _interval(operator.gap_s))


def _interval(seconds: float | None) -> str:
    assert seconds is not None  # The contract demands each shape's lengths.
    return f"{round(seconds * 1e6)} microseconds"


def _parts(operator: Window, publication: Publication) -> ResultParts:
    values = [
        value_of(aggregate, operator.fields).alias(name) for name, aggregate in operator.aggregates.items()
    ]
    serials = [named(f"serial {position}").alias(name) for position, name in enumerate(publication.inputs)]
    several = publication.has_several_inputs
    return ResultParts(
        values=json_object(values),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        input=F.col(INPUT) if several else None,
        serials=json_object(serials) if several else None,
        window=json_object([_bound("start").alias("start"), _bound("end").alias("end")]),
        count=F.col("count"),
        key=json_object(_key(operator)) if operator.key else None,
    )


def _bound(name: str) -> Column:
    return named(_WINDOW).getField(name)


def _key(operator: Window) -> list[Column]:
    return [named(f"key {name}").alias(name) for name in operator.key]


def _message_id(operator: Window, publication: Publication) -> Column:
    bounds = [F.unix_millis(_bound(name)).cast("string") for name in ("start", "end")]
    key = [json_object(_key(operator), MICROSECONDS)] if operator.key else []
    return publication.named_id(*bounds, *key)
