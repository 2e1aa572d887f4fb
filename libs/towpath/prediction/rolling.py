"""Aggregates over a rolling window of one key's events, one value with each event.

A window's aggregate is put together from blocks of 1, 2, 4… events, each aggregated once. Blocks begin at
multiples of their length in the key's own count of events. So a value depends on the events of its window and
on their place in that count, and not on how micro-batches cut them. Nothing is ever subtracted: a sum keeps
no rounding error of numbers that have left the window. For n events and windows of w events this takes n log
w steps, all in NumPy. (The blocks are those of a segment tree, as in the sliding-window aggregation of
Tangwongsan and others, "General incremental sliding-window aggregation", VLDB 2015.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from towpath.prediction.kept import Kept

if TYPE_CHECKING:
    from towpath.contracts.prediction import Rolling, RollingAggregate

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Parts = tuple[Floats, ...]
"""All that is known of numbers, or of blocks of them: arrays of one length."""

MICROSECONDS = 1_000_000


class RollingWindow(Kept):
    """The last events of one key, as far as a later window may hold them."""

    KEPT: ClassVar = ("dropped", "held", "times", "numbers")

    def __init__(self, parameters: Rolling) -> None:
        self._parameters = parameters
        self._fields = sorted({one.field for one in parameters.aggregates.values() if one.field})
        self.dropped = 0
        """Events of the key that are kept no longer."""
        self.held = 0
        """Events that are kept."""
        self.times: bytes = b""
        """Of a window by time: the time of each kept event, microseconds since 1970, never falling."""
        self.numbers: list[bytes] = [b""] * len(self._fields)
        """The numbers of each aggregated field, in the order of their names; NaN where there is none."""

    def add(self, times: Ints, numbers: Mapping[str, Floats]) -> dict[str, Floats]:
        """Take in events, in their order. Return each aggregate after each event; NaN where it is null."""
        clock = np.maximum.accumulate(np.concatenate([np.frombuffer(self.times, np.int64), times]))
        columns = {
            name: np.concatenate([np.frombuffer(old, np.float64), numbers[name]])
            for name, old in zip(self._fields, self.numbers, strict=True)
        }
        total = self.held + len(times)
        ends = np.arange(self.held, total) + 1
        starts = self._starts(clock, ends)
        blocks = _Blocks(columns, starts, ends, self.dropped)
        with np.errstate(all="ignore"):  # Sums that no double holds are infinite, and null in results.
            values = {name: blocks.value(one) for name, one in self._parameters.aggregates.items()}
        # No later window begins before the newest one.
        first = int(starts[-1])
        self.dropped, self.held = self.dropped + first, total - first
        if self._parameters.size_s is not None:
            self.times = clock[first:].tobytes()
        self.numbers = [columns[name][first:].tobytes() for name in self._fields]
        return values

    def _starts(self, clock: Ints, ends: Ints) -> Ints:
        """Where the window of each new event begins, among kept and new events."""
        size_s, size_events = self._parameters.size_s, self._parameters.size_events
        if size_s is None:
            return np.maximum(ends - (size_events or 1), 0)
        oldest = clock[-len(ends) :] - round(size_s * MICROSECONDS)
        return np.maximum(np.searchsorted(clock, oldest, side="right"), ends - self._parameters.max_events)


class _Blocks:
    """Aggregates of all windows. What several of them need is computed once."""

    def __init__(self, columns: dict[str, Floats], starts: Ints, ends: Ints, dropped: int) -> None:
        self._columns = columns
        self._starts, self._ends, self._dropped = starts, ends, dropped
        self._known: dict[tuple[str, str], Parts] = {}

    def value(self, aggregate: RollingAggregate) -> Floats:
        """The aggregate of each window. NaN where the window has too few numbers."""
        field = aggregate.field
        if field is None:
            return (self._ends - self._starts).astype(np.float64)
        count = self._count(field)
        match str(aggregate.function):
            case "count":
                return count
            case "sum" | "min" | "max":
                return np.where(count > 0, self._folded(aggregate.function, field)[0], np.nan)
            case "avg":
                return np.where(count > 0, self._folded("sum", field)[0] / np.maximum(count, 1), np.nan)
            case "rms":
                mean_square = self._folded("squares", field)[0] / np.maximum(count, 1)
                return np.where(count > 0, np.sqrt(mean_square), np.nan)
            case "stddev":
                squares = self._folded("moments", field)[2]
                return np.where(count > 1, np.sqrt(squares / np.maximum(count - 1, 1)), np.nan)
            case unknown:
                raise ValueError(f"no rolling aggregate: {unknown!r}")

    def _count(self, field: str) -> Floats:
        if np.any(np.isnan(self._columns[field])):
            return self._folded("count", field)[0]
        return (self._ends - self._starts).astype(np.float64)

    def _folded(self, fold: str, field: str) -> Parts:
        if (fold, field) not in self._known:
            how, first = _FOLDS[fold], self._dropped
            parts = how.make(self._columns[field])
            self._known[fold, field] = _folded(parts, how, self._starts + first, self._ends + first, first)
        return self._known[fold, field]


def _folded(parts: Parts, fold: Fold, starts: Ints, ends: Ints, first: int) -> Parts:
    """Merge the parts of each window, which holds the positions from its start up to its end, without that.

    `first` is the position of the first part. This is the query of a segment tree from its leaves up, for all
    windows at once: a window takes the block at its start, or at its end, that is no half of a larger one in
    it.
    """
    left = tuple(np.full(len(starts), number) for number in fold.neutral)
    right = left
    while True:
        at = np.flatnonzero((starts & 1 == 1) & (starts < ends))
        left = _replaced(left, at, fold.merge(_at(left, at), _at(parts, starts[at] - first)))
        starts = starts + (starts & 1)
        at = np.flatnonzero((ends & 1 == 1) & (starts < ends))
        right = _replaced(right, at, fold.merge(_at(parts, ends[at] - 1 - first), _at(right, at)))
        starts, ends = starts >> 1, ends >> 1
        if not np.any(starts < ends):
            return fold.merge(left, right)
        parts, first = _paired(parts, fold, first), first >> 1


def _paired(parts: Parts, fold: Fold, first: int) -> Parts:
    """The blocks of the double length. A half that is missing at an end is neutral: no window asks for it."""
    before, after = first & 1, (first + len(parts[0])) & 1
    padded = [
        np.concatenate([[number] * before, part, [number] * after])
        for part, number in zip(parts, fold.neutral, strict=True)
    ]
    return fold.merge(tuple(part[0::2] for part in padded), tuple(part[1::2] for part in padded))


def _at(parts: Parts, positions: Ints) -> Parts:
    return tuple(part[positions] for part in parts)


def _replaced(parts: Parts, at: Ints, by: Parts) -> Parts:
    copies = tuple(part.copy() for part in parts)
    for copy, new in zip(copies, by, strict=True):
        copy[at] = new
    return copies


@dataclass(frozen=True)
class Fold:
    """A way to put an aggregate together from those of two parts."""

    make: Callable[[Floats], Parts]
    """The parts of single numbers; those of NaN are neutral."""
    merge: Callable[[Parts, Parts], Parts]
    neutral: tuple[float, ...]


def _moments(numbers: Floats) -> Parts:
    """Count, mean, and sum of squared distances from the mean."""
    return _present(numbers), np.nan_to_num(numbers), np.zeros(len(numbers))


def _merged_moments(one: Parts, other: Parts) -> Parts:
    """Merge by the pairwise formula of Chan, Golub and LeVeque (1979), which loses no digits to the mean."""
    (count, mean, squares), (others, other_mean, other_squares) = one, other
    total = count + others
    share = others / np.maximum(total, 1)
    distance = other_mean - mean
    return total, mean + distance * share, squares + other_squares + distance * distance * count * share


def _present(numbers: Floats) -> Floats:
    return (~np.isnan(numbers)).astype(np.float64)


def _sums(one: Parts, other: Parts) -> Parts:
    return (one[0] + other[0],)


_FOLDS: dict[str, Fold] = {
    "count": Fold(lambda numbers: (_present(numbers),), _sums, (0.0,)),
    "sum": Fold(lambda numbers: (np.nan_to_num(numbers),), _sums, (0.0,)),
    "squares": Fold(lambda numbers: (np.nan_to_num(numbers) ** 2,), _sums, (0.0,)),
    "min": Fold(lambda n: (n,), lambda one, other: (np.fmin(one[0], other[0]),), (np.nan,)),
    "max": Fold(lambda n: (n,), lambda one, other: (np.fmax(one[0], other[0]),), (np.nan,)),
    "moments": Fold(_moments, _merged_moments, (0.0, 0.0, 0.0)),
}
