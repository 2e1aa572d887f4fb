"""The verdict on processing-time windows: where they end is up to the job, that they partition is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.identity import RangeIdentity, named
from towpath.checker.observation import Observation
from towpath.checker.truth import aggregated, check_columns, plain
from towpath.checker.verdict import Verdict, describe, judge
from towpath.contracts.operators import Aggregate

Range = tuple[int, int]
"""Serial numbers `after` < n ≤ `through`."""

SERIAL = "serial"
_COUNT = "events in the window"
_NEWEST = "newest serial number"


@dataclass(frozen=True, slots=True)
class Partition:
    """What ranges make of an input."""

    parts: list[Range]
    """As many of the ranges as do not overlap each other, in order."""
    overlapping: list[Range]
    """Ranges with serial numbers that are also in `parts`."""
    gaps: list[Range]
    """What no range covers."""


def partition(ranges: Iterable[Range], after: int, through: int) -> Partition:
    """How `ranges` lie over the input with `after` < serial number ≤ `through`."""
    # Earliest end first, and the shorter one first: keeps as many ranges as can be kept.
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
    """The results of windows over given ranges of `events`, which have their number in column `serial`.

    Ranges may overlap. An event without its whole key is in no window. Beside the aggregates, each result
    has the number of events in the window and the newest serial number among them, under names that no
    aggregate has. Raises `TowpathError` if a field is not a column.
    """
    check_columns(events, [SERIAL, *key, *(a.field for a in aggregates.values() if a.field is not None)])
    placed = events.dropna(subset=list(key)).sort_values(SERIAL)
    serials = placed[SERIAL].to_numpy()
    first = np.searchsorted(serials, [after for after, _ in ranges], side="right")
    last = np.searchsorted(serials, [through for _, through in ranges], side="right")
    positions = [np.arange(a, b) for a, b in zip(first, last, strict=True)]
    if not any(len(part) for part in positions):
        return {}
    rows = placed.iloc[np.concatenate(positions)].reset_index(drop=True)
    numbers = np.repeat(np.arange(len(ranges)), [len(part) for part in positions])
    groups = rows.groupby([numbers, *(rows[name] for name in key)], sort=True)
    columns = {name: aggregated(groups, aggregate) for name, aggregate in aggregates.items()}
    columns |= {_COUNT: groups.size(), _NEWEST: groups[SERIAL].max()}
    table = pd.DataFrame(columns).astype(object)
    truth: dict[RangeIdentity, dict[str, Any]] = {}
    for group, row in zip(table.index.tolist(), table.itertuples(index=False, name=None), strict=True):
        number, *values = group if isinstance(group, tuple) else (group,)
        known = named({name: plain(value) for name, value in zip(key, values, strict=True)})
        after, through = ranges[number]
        results = {name: plain(value) for name, value in zip(columns, row, strict=True)}
        truth[RangeIdentity(job, after, through, known)] = results
    return truth


def judge_ranges(
    events: pd.DataFrame,
    observations: Sequence[Observation],
    *,
    job: str,
    key: Sequence[str],
    aggregates: Mapping[str, Aggregate],
    after: int,
    through: int,
    tolerance: float = 1e-9,
    late_after_s: float | None = None,
) -> Verdict:
    """Whether the windows that came partition the input `after` < serial number ≤ `through`, and are right.

    `events` are those that the job should have accepted, with their number in column `serial`. Events in a
    gap between the windows are `lost`: one result for each key they have. A window with serial numbers of
    another one is `duplicated`, as is a second copy of a result. Everything else as for `judge`.
    """
    came = {o.identity for o in observations if isinstance(o.identity, RangeIdentity)}
    ours = {identity for identity in came if identity.job == job and identity.after < identity.through}
    found = partition([(i.after, i.through) for i in ours], after, through)
    expected = range_truth(events, [*found.parts, *found.gaps], key, aggregates, job)
    twice = range_truth(events, found.overlapping, key, aggregates, job)
    repeated = {identity: values for identity, values in twice.items() if identity in came}
    verdict = judge(
        {**expected, **repeated}, observations, tolerance, late_after_s, compared=_values_and_extent
    )
    verdict.expected = len(expected)
    verdict.duplicated += len(repeated)
    for identity in sorted(repeated, key=lambda i: (i.after, i.through)):
        verdict.example("duplicated", lambda identity=identity: f"{describe(identity)} overlaps another")
    return verdict


def _values_and_extent(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is compared of a result, under the names of `range_truth`."""
    return {**body["values"], _COUNT: body.get("count"), _NEWEST: body["serial"]}
