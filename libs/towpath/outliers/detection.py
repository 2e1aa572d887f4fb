"""Describe an algorithm that detects outliers: its parameters, what it is told, what it finds.

A value is an outlier if fewer than K other values of the window lie within distance R of it. Distances are
decided in binary arithmetic: b is within R of a if `abs(a - b) <= R` for doubles. On a grid, a distance of
exactly R is then chance: 0.8 is within 0.5 of 0.3, but 1.1 is not within 0.5 of 0.6. Where values lie on a
grid, choose R halfway between two of its steps. Decimal arithmetic would decide such cases as people write
them, but would be slower by far, and doubles that were computed are on no decimal grid.

With K = 0 there are no outliers; with fewer than K + 1 values in the window, all of them are. Values must be
finite.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ISOLATED = "isolated"
SMALL_CLUSTER = "in a small cluster of {size} values within R"
EDGE = "at the edge of a cluster"


class Outlier(NamedTuple):
    """A value with too few neighbours."""

    number: int
    """Its number among all values that arrived, from 0. The oldest value of the window has `expired`."""
    value: float
    neighbours: int
    """Other values of the window within R."""
    cluster_distance: float | None
    """Distance to the nearest centre of a micro-cluster. None if there is none, or the algorithm has none."""
    explanation: str
    """`isolated`: without neighbours. `in a small cluster of N values within R`: steps of at most R lead to N
    values, itself included, which are all outliers. `at the edge of a cluster`: they lead to a value that is
    no outlier."""


class Lonely(NamedTuple):
    """Outliers that are not explained yet, sorted by value."""

    values: Floats
    numbers: Ints
    neighbours: Ints


class OutlierDetector(ABC):
    """The window of one series."""

    def __init__(self, k: int, r: float) -> None:
        """Raise `ValueError` if `k` or `r` is negative, or `r` is not finite."""
        if k < 0:
            raise ValueError(f"K is {k}; allowed: 0 and more")
        if not (math.isfinite(r) and r >= 0):
            raise ValueError(f"R is {r}; allowed: finite, 0 and more")
        self._k = k
        self._r = float(r)
        self.expired = 0
        """Values that left the window so far: the number of the oldest one in it."""

    @abstractmethod
    def __len__(self) -> int:
        """Return how many values the window has."""

    def slide(self, arrivals: Sequence[float], expired: int = 0) -> list[Outlier]:
        """Take in values in their order, drop the `expired` oldest ones, and return the outliers by number.

        Arrivals may expire at once. Raise `ValueError` if more expire than there are.
        """
        held = len(self)
        if not 0 <= expired <= held + len(arrivals):
            raise ValueError(f"expired is {expired}; allowed: 0 to {held + len(arrivals)}")
        self._expire(min(expired, held))
        skipped = max(expired - held, 0)
        self.expired += skipped
        self._arrive(arrivals[skipped:])
        lonely = self._lonely()
        return self._explained(lonely) if len(lonely.values) else []

    @abstractmethod
    def _expire(self, count: int) -> None:
        """Drop the oldest values, and count them in `expired`."""

    @abstractmethod
    def _arrive(self, values: Sequence[float]) -> None:
        """Add the newest values."""

    @abstractmethod
    def _lonely(self) -> Lonely:
        """Return the outliers of the window."""

    def _cluster_distances(self, values: Floats) -> Sequence[float | None]:
        """Return the distance of each value to the nearest micro-cluster."""
        return [None] * len(values)

    @abstractmethod
    def saved(self) -> list[Any]:
        """Return the state as plain values, from which a detector with the same K and R goes on the same."""

    @abstractmethod
    def restore(self, saved: list[Any]) -> None:
        """Take over what a detector of this class saved."""

    def _explained(self, lonely: Lonely) -> list[Outlier]:
        group, explanations = _groups(lonely, self._r)
        order = np.argsort(lonely.numbers)
        values = lonely.values[order]
        return [
            *map(
                Outlier,
                lonely.numbers[order].tolist(),
                values.tolist(),
                lonely.neighbours[order].tolist(),
                self._cluster_distances(values),
                [explanations[number] for number in group[order].tolist()],
            )
        ]


def _groups(lonely: Lonely, r: float) -> tuple[Ints, list[str]]:
    """Return the group of each outlier, and the explanation of each group.

    Steps of at most R connect a group. If its members have more neighbours than its pairs account for,
    some neighbours are no outliers.
    """
    values = lonely.values
    with np.errstate(over="ignore"):
        begins = np.diff(values, prepend=-np.inf) > r
    starts = np.flatnonzero(begins)
    sizes = np.diff(starts, append=len(values))
    pairs = np.add.reduceat(ends_within(values, r) - np.arange(len(values)) - 1, starts)
    is_edge = np.add.reduceat(lonely.neighbours, starts) > 2 * pairs
    explanations = [
        EDGE if edge else ISOLATED if size == 1 else SMALL_CLUSTER.format(size=size)
        for size, edge in zip(sizes.tolist(), is_edge.tolist(), strict=True)
    ]
    return np.cumsum(begins) - 1, explanations


def ends_within(values: Floats, r: float) -> Ints:
    """Return for each of the sorted values where those end that are within R above it."""
    following = np.append(values, np.inf)
    with np.errstate(over="ignore"):  # A distance that no double holds is infinite: larger than R.
        ends = np.searchsorted(values, values + r, side="right")
        # A sum is rounded otherwise than a difference, which decides.
        while (at := np.flatnonzero(values[ends - 1] - values > r)).size:
            ends[at] -= 1
        while (at := np.flatnonzero(following[ends] - values <= r)).size:
            ends[at] += 1
    return ends
