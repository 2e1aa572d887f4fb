"""Judge processing-time windows: the job chooses where they end, but they must partition its input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.identity import RangeIdentity
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage
from towpath.checker.truth import check_columns, grouped, groups_in
from towpath.checker.verdict import Leniency, Verdict
from towpath.contracts.operators import Aggregate, AggregateFunction

Range = tuple[int, int]
"""Serial numbers `after` < n ≤ `through`."""

SERIAL = "serial"
_COUNT = "events in the window"
_NEWEST = "newest serial number"
_OF_EACH = {
    _COUNT: Aggregate(function=AggregateFunction.COUNT),
    _NEWEST: Aggregate(function=AggregateFunction.MAX, field=SERIAL),
}


@dataclass(frozen=True, slots=True)
class Partition:
    """Ranges over an input."""

    parts: list[Range]
    """As many ranges as possible that do not overlap each other, in order."""
    overlapping: list[Range]
    """Ranges with serial numbers that are also in `parts`."""
    gaps: list[Range]
    """Serial numbers that no range covers."""


def judge_ranges(
    events: pd.DataFrame,
    observations: Sequence[ReceivedMessage],
    *,
    job: str,
    key: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    after: int,
    through: int,
    leniency: Leniency | None = None,
) -> Verdict:
    """Judge if the received windows are right, and partition the input `after` < serial number ≤ `through`.

    `events` are those that the job should have accepted, with their number in column `serial`. Events in a
    gap between the windows are `lost`: one result for each of their keys. A window with serial numbers of
    another one is `duplicated`, as is a second copy of a result. Everything else is judged as by `judge`.
    """
    came = (o.identity for o in observations if isinstance(o.identity, RangeIdentity))
    ours = {(i.after, i.through) for i in came if i.job == job and i.after < i.through}
    found = partition(ours, after, through)
    needed = range_truth(events, [*found.parts, *found.gaps], key, aggregates, job)
    surplus = range_truth(events, found.overlapping, key, aggregates, job)
    return judge(
        {**needed, **surplus}, observations, leniency, compared=_values_and_extent, surplus=surplus.keys()
    )


def _values_and_extent(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the compared part of a result, under the names of `range_truth`."""
    return {**body["values"], _COUNT: body.get("count"), _NEWEST: body["serial"]}


def partition(ranges: Iterable[Range], after: int, through: int) -> Partition:
    """Partition the input with `after` < serial number ≤ `through` by `ranges`."""
    # Earliest end first, and the shorter one first: this keeps as many ranges as possible.
    parts: list[Range] = []
    overlapping: list[Range] = []
    for candidate in sorted(set(ranges), key=lambda r: (r[1], -r[0])):
        fits = not parts or candidate[0] >= parts[-1][1]
        (parts if fits else overlapping).append(candidate)
    gaps: list[Range] = []
    reached = after
    for start, end in sorted([*parts, *overlapping, (through, through)]):
        if start > reached:
            gaps.append((reached, min(start, through)))
        reached = max(reached, end)
    return Partition(parts, sorted(overlapping), [gap for gap in gaps if gap[0] < gap[1]])


def range_truth(
    events: pd.DataFrame,
    ranges: Sequence[Range],
    key: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    job: str = "",
) -> dict[RangeIdentity, dict[str, Any]]:
    """Return the results of windows over ranges of `events`, which have their number in column `serial`.

    Ranges may overlap. An event without its whole key is in no window. Beside the aggregates, each result
    has the number of events in the window and their newest serial number, under names that no aggregate has.
    Raises `TowpathError` if a field is not a column.
    """
    check_columns(events, [SERIAL, *key, *(a.field for a in aggregates.values() if a.field is not None)])
    placed = events.dropna(subset=list(key))
    rows, numbers = rows_in(ranges, placed[SERIAL].to_numpy())
    if not len(rows):
        return {}
    of_ranges = placed.iloc[rows].reset_index(drop=True)
    table = grouped(of_ranges, [numbers, *(of_ranges[name] for name in key)], {**aggregates, **_OF_EACH})
    return {
        RangeIdentity(job, *ranges[number], known_by): values
        for number, known_by, values in groups_in(table, key)
    }


def rows_in(ranges: Sequence[Range], serials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of each range, and for each row the number of its range.

    A row comes once for each range that covers its serial number.
    """
    ordered = np.argsort(serials, kind="stable")
    begin = np.searchsorted(serials[ordered], [after for after, _ in ranges], side="right")
    end = np.searchsorted(serials[ordered], [through for _, through in ranges], side="right")
    lengths = np.maximum(end - begin, 0)
    numbers = np.repeat(np.arange(len(ranges)), lengths)
    within = np.arange(len(numbers)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return ordered[np.repeat(begin, lengths) + within], numbers
