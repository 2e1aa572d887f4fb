"""The algorithm `sorted_window`: counts all neighbours in the sorted window again at each slide.

In one dimension, the neighbours of a value are a range of the sorted window, so the ends of two such ranges
count them. That is a sort and two searches in NumPy for each slide, whatever the values and K are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from towpath.outliers.detection import Lonely, OutlierDetector, ends_within


class SortedWindow(OutlierDetector):
    """The values of a window."""

    def __init__(self, k: int, r: float) -> None:
        super().__init__(k, r)
        self._values = np.empty(0)

    def __len__(self) -> int:
        return len(self._values)

    def _expire(self, count: int) -> None:
        self._values = self._values[count:]
        self.expired += count

    def _arrive(self, values: Sequence[float]) -> None:
        self._values = np.concatenate([self._values, np.asarray(values, np.float64)])

    def _lonely(self) -> Lonely:
        places, which, counts = np.unique(self._values, return_inverse=True, return_counts=True)
        ends = ends_within(places, self._r)
        begins = np.searchsorted(ends, np.arange(len(places)), side="right")  # Distances are symmetric.
        before = np.concatenate([[0], np.cumsum(counts)])
        neighbours = (before[ends] - before[begins] - 1)[which]
        at = np.flatnonzero(neighbours < self._k)
        at = at[np.argsort(self._values[at], kind="stable")]
        return Lonely(self._values[at], at + self.expired, neighbours[at])

    def saved(self) -> list[Any]:
        """See `OutlierDetector`. The values, and the number of the oldest."""
        return [self.expired, self._values.tobytes()]

    def restore(self, saved: list[Any]) -> None:
        """See `OutlierDetector`."""
        self.expired = saved[0]
        self._values = np.frombuffer(saved[1], np.float64)
