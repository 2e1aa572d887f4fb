"""Read a metric store: single samples, or one point per step, from samples and whole minutes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from towpath.contracts.metrics import Aggregation, MetricSelection
from towpath.telemetry.metric_tables import samples_from
from towpath.telemetry.rollup import MINUTE_S, minute_of, next_minute
from towpath.telemetry.selection import too_many

Points = list[tuple[float, float]]
Rows = list[tuple[int, float, float]]
"""Rows of series, moment and value."""

_AGGREGATES = {
    Aggregation.MEAN: "sum(sum) / sum(count)",
    Aggregation.MIN: "min(min)",
    Aggregation.MAX: "max(max)",
    Aggregation.SUM: "sum(sum)",
    # SQLite documents that a bare column beside a single max() comes from the row with the maximum.
    Aggregation.LAST: "last, max(at)",
    Aggregation.COUNT: "sum(count)",
    Aggregation.RATE: "sum(grown) / sum(over_s)",
}

_PIECES = """
SELECT at, series, value AS sum, 1 AS count, value AS min, value AS max, value AS last, grown, over_s
  FROM samples WHERE at >= :begin AND at < :minutes_begin
UNION ALL SELECT at, series, sum, count, min, max, last, grown, over_s
  FROM minutes WHERE at >= :minutes_begin AND at < :minutes_end
UNION ALL SELECT at, series, value, 1, value, value, value, grown, over_s
  FROM samples WHERE at >= :minutes_end AND at < :end
"""


@dataclass(frozen=True)
class Range:
    """From `begin` to before `end`, Unix seconds; whole minutes from `minutes_begin` to `minutes_end`."""

    begin: float
    minutes_begin: float
    minutes_end: float
    end: float


def newest_moment(connection: sqlite3.Connection) -> float | None:
    """Return when the newest sample was taken. None if there is none."""
    return connection.execute("SELECT max(at) FROM samples").fetchone()[0]


def points_of(
    connection: sqlite3.Connection, selection: MetricSelection, series: Mapping[int, Any]
) -> tuple[dict[int, Points], dict[int, float]]:
    """Return the points of the series with these numbers, by time, and of some series a moment.

    Before that moment a series has minutes although smaller steps were asked for, because its single samples
    are gone.

    Raises `TowpathError` when there are too many points.
    """
    assert selection.since is not None
    newest = newest_moment(connection)
    if newest is None:
        return {}, {}
    begin = selection.since.timestamp()
    end = newest + 1.0 if selection.until is None else selection.until.timestamp()
    numbers = json.dumps(list(series))
    kept_from, open_minute = samples_from(connection), minute_of(newest)
    if selection.step_s is None or selection.step_s < MINUTE_S:
        minutes = _gone(begin, end, kept_from, open_minute)
        coarse = [] if minutes is None else _by_minute(connection, numbers, minutes, selection)
        since = begin if minutes is None else minutes.end
        rows = coarse + _fine(connection, numbers, Range(since, since, since, end), selection)
        by_minute_until = {} if minutes is None else {number: minutes.end for number, _, _ in coarse}
    else:
        pieces = _pieces(begin, end, selection.step_s, kept_from, open_minute)
        rows, by_minute_until = _steps(connection, numbers, pieces, selection), {}
    if len(rows) > selection.limit:
        oldest = connection.execute("SELECT min(at) FROM minutes").fetchone()[0]
        raise too_many(selection, len(series), max(begin, oldest or begin), min(end, newest))
    return _grouped(rows), by_minute_until


def _gone(begin: float, end: float, kept_from: float, open_minute: float) -> Range | None:
    """Return the whole minutes of a range whose single samples are gone. None if there are none."""
    minutes_begin, minutes_end = minute_of(begin), min(next_minute(min(end, kept_from)), open_minute)
    if begin >= kept_from or minutes_end <= minutes_begin:
        return None
    return Range(minutes_begin, minutes_begin, minutes_end, minutes_end)


def _by_minute(
    connection: sqlite3.Connection, numbers: str, minutes: Range, selection: MetricSelection
) -> Rows:
    """Return the remains of minutes whose samples are gone: their means, if samples were asked for."""
    aggregation = Aggregation.MEAN if selection.step_s is None else selection.aggregation
    by_minute = selection.model_copy(update={"step_s": MINUTE_S, "aggregation": aggregation})
    return _steps(connection, numbers, minutes, by_minute)


def _fine(connection: sqlite3.Connection, numbers: str, asked: Range, selection: MetricSelection) -> Rows:
    """Return steps of less than a minute, or single samples."""
    if selection.step_s is not None:
        return _steps(connection, numbers, asked, selection)
    return _samples(connection, numbers, asked.begin, asked.end, selection.limit + 1)


def _samples(connection: sqlite3.Connection, numbers: str, begin: float, end: float, most: int) -> Rows:
    return connection.execute(
        "SELECT series, at, value FROM samples WHERE at >= ? AND at < ?"
        " AND series IN (SELECT value FROM json_each(?)) ORDER BY at LIMIT ?",
        (begin, end, numbers, most),
    ).fetchall()


def _pieces(begin: float, end: float, step_s: float, kept_from: float, open_minute: float) -> Range:
    """Return the part of a range to read by the minute, for steps of a minute and more.

    Minutes are quicker to read, and the only source where single samples are gone. The ends of the range then
    count by whole minutes. Steps that are not whole minutes are exact from single samples only.
    """
    is_gone = begin < kept_from
    if step_s % MINUTE_S and not is_gone:
        return Range(begin, begin, begin, end)
    minutes_begin = minute_of(begin) if is_gone else next_minute(begin)
    # A range may also end where single samples are gone.
    minutes_end = next_minute(end) if end < kept_from else minute_of(end)
    minutes_end = min(minutes_end, open_minute)
    if minutes_end <= minutes_begin:
        return Range(begin, begin, begin, end)
    return Range(min(begin, minutes_begin), minutes_begin, minutes_end, end)


def _steps(connection: sqlite3.Connection, numbers: str, pieces: Range, selection: MetricSelection) -> Rows:
    rates = "HAVING sum(over_s) > 0" if selection.aggregation is Aggregation.RATE else ""
    rows = connection.execute(
        f"SELECT series, CAST(at / :step AS INTEGER) AS step, {_AGGREGATES[selection.aggregation]}"
        f" FROM ({_PIECES}) WHERE series IN (SELECT value FROM json_each(:numbers))"
        f" GROUP BY 1, 2 {rates} ORDER BY 1, 2 LIMIT :most",
        {
            "begin": pieces.begin,
            "minutes_begin": pieces.minutes_begin,
            "minutes_end": pieces.minutes_end,
            "end": pieces.end,
            "step": selection.step_s,
            "numbers": numbers,
            "most": selection.limit + 1,
        },
    )
    assert selection.step_s is not None
    return [(number, step * selection.step_s, float(value)) for number, step, value, *_ in rows]


def _grouped(rows: Rows) -> dict[int, Points]:
    found: dict[int, Points] = {}
    for number, at, value in rows:
        found.setdefault(number, []).append((at, value))
    return found
