"""Plan windows over event time: aggregates per window and key, published once, when the window closes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Window, WindowShape
from towpath.operators.aggregates import TIME, check_aggregates
from towpath.operators.columns import is_new, named, union
from towpath.operators.grouping import key_of, partials, prepared, values_of
from towpath.operators.results import results_of
from towpath.streams.reading import SERIAL, STORED_AT

_WINDOW = "event window"
_AGAIN = "serial again"


def windows_of(typed: list[DataFrame], operator: Window) -> DataFrame:
    """The closed windows over the typed events of each input."""
    check_window(operator)
    # One watermark per input: Spark takes the least, so a slow input holds the windows open.
    timed = union([_timed(rows, operator) for rows in typed])
    grouped = (
        timed.where(is_new(named(TIME)))
        .groupBy(_window(operator).alias(_WINDOW), *_keys(operator))
        .agg(
            # The same for any number of inputs, because state outlives a change of the inputs.
            F.max(SERIAL).alias(SERIAL),
            F.max(STORED_AT).alias(STORED_AT),
            F.expr("count(1)").alias("count"),
            *partials(operator),
        )
    )
    # Spark keeps the aggregates in this order, unless it can merge the projection of results into the
    # aggregation: then in the order in which results use them. It merges none that uses one of them twice.
    twice = F.col(SERIAL).alias(_AGAIN)
    return results_of(
        grouped, values_of(operator), twice, closed=named(_WINDOW), count=F.col("count"), key=key_of(operator)
    )


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


def _timed(rows: DataFrame, operator: Window) -> DataFrame:
    """All rows as they are grouped, with their watermark."""
    time = F.col(operator.event_time or STORED_AT).alias(TIME)
    return prepared(rows, operator, time).withWatermark(f"`{TIME}`", _interval(operator.watermark_s))


def _keys(operator: Window) -> list[Column]:
    keys = [named(f"key {name}") for name in operator.key]
    if operator.shape is WindowShape.SESSION and not keys:
        # Spark needs a key for session windows. This one is the same for all: the optimiser cannot know.
        return [F.col(SERIAL) < 0]
    return keys


def _window(operator: Window) -> Column:
    match operator.shape:
        case WindowShape.TUMBLING:
            return F.window(named(TIME), _interval(operator.size_s))
        case WindowShape.SLIDING:
            return F.window(named(TIME), _interval(operator.size_s), _interval(operator.slide_s))
        case WindowShape.SESSION:
            return F.session_window(named(TIME), _interval(operator.gap_s))


def _interval(seconds: float | None) -> str:
    assert seconds is not None  # The contract demands each shape's lengths.
    return f"{round(seconds * 1e6)} microseconds"
