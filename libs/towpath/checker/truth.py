"""Compute the results of windows in a batch over the same events. It shares no code with the jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pandas as pd

from towpath.checker.identity import Values, WindowIdentity, named
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.operators import Aggregate, AggregateFunction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

WindowTruth = dict[WindowIdentity, dict[str, Any]]
"""Window and key → the aggregates' values."""


def window_truth(
    events: pd.DataFrame,
    event_time: str,
    size_s: float,
    key: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    job: str = "",
) -> WindowTruth:
    """Return the results of a tumbling window over `events`, as a job called `job` should publish them.

    Windows are aligned to 1970-01-01 UTC, as Spark's are. An event without a time is in no window; a
    missing key is a key of its own. Missing values are left out of every aggregate but `count`, and an
    aggregate of nothing is None. `stddev` is the sample's (None for one value); `percentile` interpolates
    linearly, as Spark's exact one does. Raises `TowpathError` if a field is not a column.
    """
    used = [event_time, *key, *(a.field for a in aggregates.values() if a.field is not None)]
    check_columns(events, used)
    if not size_s > 0:
        raise TowpathError(ErrorCode.INVALID, "not a length", field="size_s", value=size_s, allowed="above 0")
    placed = events.dropna(subset=[event_time])
    size_us = round(size_s * 1_000_000)
    at_us = pd.to_datetime(cast(pd.Series, placed[event_time]), utc=True).dt.as_unit("us").astype("int64")
    table = grouped(placed, [at_us // size_us, *(placed[name] for name in key)], aggregates)
    truth: WindowTruth = {}
    for number, known_by, values in groups_in(table, key):
        start, end = (_EPOCH + n * size_us * _MICROSECOND for n in (number, number + 1))
        truth[WindowIdentity(job, start, end, known_by)] = values
    return truth


def check_columns(events: pd.DataFrame, used: Sequence[str]) -> None:
    """Raise `TowpathError` if one of the fields is not a column."""
    for name in used:
        if name not in events.columns:
            raise TowpathError(
                ErrorCode.INVALID, "no such column", field=name, allowed=[str(c) for c in events.columns]
            )


def grouped(rows: pd.DataFrame, by: Sequence[Any], aggregates: Mapping[str, Aggregate]) -> pd.DataFrame:
    """Return the aggregates of rows that are alike in all of `by`. The index of a row names its group."""
    groups = rows.groupby([*by], dropna=False, sort=True)
    columns = {name: _aggregated(groups, aggregate) for name, aggregate in aggregates.items()}
    return pd.DataFrame(columns).astype(object)


def _aggregated(groups: Any, aggregate: Aggregate) -> pd.Series:
    if aggregate.function is AggregateFunction.COUNT:
        return groups.size()
    return _OF_GROUPS[aggregate.function](groups[aggregate.field], aggregate.q)


_OF_GROUPS: dict[AggregateFunction, Callable[[Any, float | None], Any]] = {
    AggregateFunction.SUM: lambda column, q: column.sum(min_count=1),
    AggregateFunction.TOTAL: lambda column, q: column.sum(min_count=1),
    AggregateFunction.AVG: lambda column, q: column.mean(),
    AggregateFunction.MIN: lambda column, q: column.min(),
    AggregateFunction.MAX: lambda column, q: column.max(),
    AggregateFunction.STDDEV: lambda column, q: column.std(ddof=1),
    AggregateFunction.PERCENTILE: lambda column, q: column.quantile(q, interpolation="linear"),
    AggregateFunction.DISTINCT: lambda column, q: column.nunique(dropna=True),
}
"""By the standard definitions of pandas, none of which counts a missing value."""


def groups_in(table: pd.DataFrame, key: Sequence[str]) -> Iterator[tuple[int, Values, dict[str, Any]]]:
    """Yield for each group its number (the first part of the index), its key, and its aggregates."""
    for group, row in zip(table.index.tolist(), table.itertuples(index=False, name=None), strict=True):
        number, *held = group if isinstance(group, tuple) else (group,)
        known_by = named({name: plain(value) for name, value in zip(key, held, strict=True)})
        yield number, known_by, {name: plain(cell) for name, cell in zip(table.columns, row, strict=True)}


def plain(value: Any) -> Any:
    """Return a cell of a table as JSON has it: no NumPy types, missing is None, times are in UTC."""
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        moment = value.to_pydatetime()
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return value.item() if hasattr(value, "item") else value
