"""Plan windows over event time: aggregates per window and key, published once, when the window closes."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Window, WindowShape
from towpath.operators.aggregates import check_aggregates
from towpath.operators.columns import INPUT, MICROSECONDS, REASON, SERIAL, STORED_AT, TEXT, json_object, named
from towpath.operators.grouping import judged, key_columns, partials_sql, prepared, values_of
from towpath.operators.publication import Publication, ResultParts

_TIME = "event time"
_WINDOW = "event window"

_IS_NEW = f"({SERIAL} + coalesce(unix_micros(`{_TIME}`) * 0, 0)) > 0"
"""SQL: true if a row counts, and was not only recalled for its time. It names the time without using it,
because Spark would otherwise evaluate it before the watermark has seen the row."""

_NEWEST = {SERIAL: f"max({SERIAL})", STORED_AT: f"max({STORED_AT})"}
"""Column → SQL. The same for any number of inputs, because state outlives a change of the inputs."""


def windows_of(parsed: list[DataFrame], operator: Window, publication: Publication) -> DataFrame:
    """Results and rejected events of a window over the typed rows of each input.

    Rejected events have no place in event time. In the aggregation they would wait until a window closes, so
    they take a stateless branch beside it.
    """
    check_window(operator)
    # One watermark per input: Spark takes the least, so a slow input holds the windows open. Rows with
    # negative serial numbers count only for their times: the source recalls them after a start.
    shared = [_timed(rows, operator) for rows in parsed]
    rows = _closed_and_rejected(shared, operator).select(
        SERIAL, INPUT, STORED_AT, named(REASON), named(TEXT), "result.*"
    )
    return publication.of_events(rows, _message_id(operator, publication), _parts(operator))


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
    """All rows as they are grouped, with their watermark. Rejected ones have no time."""
    event_time = [operator.event_time] if operator.event_time else []
    known = judged(rows, [*operator.key, *event_time])
    time = F.when(named(REASON).isNull(), F.col(operator.event_time or STORED_AT))
    return prepared(known, operator, time.alias(_TIME)).withWatermark(
        f"`{_TIME}`", _interval(operator.watermark_s)
    )


def _closed_and_rejected(shared: list[DataFrame], operator: Window) -> DataFrame:
    """Closed windows in the column `result`, and rejected events, where it is null.

    Both come from one reading of the source. If a plan used a DataFrame twice, Spark would start a second
    source and read everything again. It computes a common table expression once, but only if that is not
    deterministic: hence the `uuid`, which is never evaluated. The branch with the aggregation must come
    first, because the result of the first use replaces the second, and Spark looks for the watermark below
    the aggregation.
    """
    session = shared[0].sparkSession
    names = [f"shared_{position}" for position in range(len(shared))]
    tables = {f"rows_{position}": rows for position, rows in enumerate(shared)}
    common = ", ".join(
        f"{name} AS (SELECT *, uuid() AS `once` FROM {{{rows}}})"
        for name, rows in zip(names, tables, strict=True)
    )
    rejected = " UNION ALL ".join(
        f"SELECT {SERIAL}, {INPUT}, {STORED_AT}, `{REASON}`, `{TEXT}`, NULL AS result "
        f"FROM {name} WHERE `{REASON}` IS NOT NULL AND {_IS_NEW}"
        for name in names
    )
    closed = _closed_sql(names, operator)
    return session.sql(f"WITH {common} {closed} UNION ALL {rejected}", args=None, **tables)


def _closed_sql(names: list[str], operator: Window) -> str:
    """SQL of the closed windows over common tables `names`, with the columns of the other branch."""
    good = " UNION ALL ".join(
        f"SELECT * FROM {name} WHERE `{REASON}` IS NULL AND {_IS_NEW}" for name in names
    )
    kept = {"count": "count(1)", **_NEWEST, **partials_sql(operator)}
    keys = [f"`key {name}`" for name in operator.key]
    # Spark needs a key for session windows. This one is the same for all, which the optimiser cannot know.
    silent = [f"({SERIAL} < 0)"] if operator.shape is WindowShape.SESSION and not keys else []
    window = _window_sql(operator)
    selected = [f"{window} AS `{_WINDOW}`", *keys, *(f"{sql} AS `{name}`" for name, sql in kept.items())]
    grouped = f"SELECT {', '.join(selected)} FROM ({good}) GROUP BY {', '.join([window, *keys, *silent])}"
    inside = [f"`{name}`" for name in kept if name not in _NEWEST]
    members = ", ".join([f"`{_WINDOW}`", *keys, *inside])
    return (
        f"SELECT {SERIAL}, NULL AS {INPUT}, {STORED_AT}, NULL AS `{REASON}`, NULL AS `{TEXT}`, "
        f"struct({members}) AS result FROM ({grouped})"
    )


def _window_sql(operator: Window) -> str:
    match operator.shape:
        case WindowShape.TUMBLING:
            return f"window(`{_TIME}`, '{_interval(operator.size_s)}')"
        case WindowShape.SLIDING:
            return f"window(`{_TIME}`, '{_interval(operator.size_s)}', '{_interval(operator.slide_s)}')"
        case WindowShape.SESSION:
            return f"session_window(`{_TIME}`, '{_interval(operator.gap_s)}')"


def _interval(seconds: float | None) -> str:
    assert seconds is not None  # The contract demands each shape's lengths.
    return f"{round(seconds * 1e6)} microseconds"


def _parts(operator: Window) -> ResultParts:
    return ResultParts(
        values=values_of(operator),
        serial=F.col(SERIAL),
        stored_at=F.col(STORED_AT),
        window=json_object([_bound("start").alias("start"), _bound("end").alias("end")]),
        count=F.col("count"),
        key=json_object(key_columns(operator)) if operator.key else None,
        closed_at=_bound("end"),
    )


def _bound(name: str) -> Column:
    return named(_WINDOW).getField(name)


def _message_id(operator: Window, publication: Publication) -> Column:
    key = json_object(key_columns(operator), MICROSECONDS) if operator.key else None
    return publication.identities.of_window(_bound("start"), _bound("end"), key)
