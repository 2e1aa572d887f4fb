"""Totals of a window that slides over values one by one: values come in at one end and leave at the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from towpath.queries.evaluation.history import Entry
from towpath.queries.evaluation.totals import Totals


class SlidingTotals:
    """The totals of `entries[first:behind]`, whose bounds only rise. Sums are exact, so nothing drifts."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._first = self._behind = 0
        self._totals = Totals()
        self._least: deque[tuple[int, float]] = deque()
        self._most: deque[tuple[int, float]] = deque()

    def between(self, first: int, behind: int) -> Totals:
        """Return the totals of these entries. Both bounds are at least those of the call before."""
        first = min(first, behind)
        if first >= self._behind:
            self._totals, self._first, self._behind = Totals(), first, first
            self._least.clear()
            self._most.clear()
        for at in range(self._behind, behind):
            self._come(at)
        for at in range(self._first, first):
            self._leave(at)
        self._first, self._behind = first, behind
        self._totals.min = self._least[0][1] if self._least else None
        self._totals.max = self._most[0][1] if self._most else None
        return self._totals

    def _come(self, at: int) -> None:
        value = self._entries[at][3]
        self._totals.come(value)
        if isinstance(value, str):
            return
        _keep(self._least, at, value, lambda known, new: known >= new)
        _keep(self._most, at, value, lambda known, new: known <= new)

    def _leave(self, at: int) -> None:
        self._totals.leave(self._entries[at][3])
        for kept in (self._least, self._most):
            if kept and kept[0][0] == at:
                kept.popleft()


def _keep(
    kept: deque[tuple[int, float]], at: int, value: float, is_beaten: Callable[[float, float], bool]
) -> None:
    """Add a value to those that may become the extreme one of a later window."""
    while kept and is_beaten(kept[-1][1], value):
        kept.pop()
    kept.append((at, value))
