"""A set of numbers from 1 on, kept as ranges: small as long as the numbers come nearly in order. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class NumberSet:
    """Numbers as disjoint ranges in ascending order, both ends included."""

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def add(self, first: int, last: int | None = None) -> None:
        """Add the numbers from `first` to `last`, or `first` alone."""
        last = first if last is None else last
        if last < first:
            return
        low = bisect_left(self._lasts, first - 1)
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def missing_from(self, number: int) -> int:
        """Return the first number at or after this one that is not in the set."""
        at = bisect_right(self._firsts, number) - 1
        return self._lasts[at] + 1 if at >= 0 and number <= self._lasts[at] else number

    def missing(self, first: int, last: int) -> list[tuple[int, int]]:
        """Return the ranges between these two numbers that are not in the set."""
        found: list[tuple[int, int]] = []
        number = self.missing_from(first)
        while number <= last:
            at = bisect_right(self._firsts, number)
            end = min(last, self._firsts[at] - 1) if at < len(self._firsts) else last
            found.append((number, end))
            number = self.missing_from(end + 1)
        return found

    def covers(self, first: int, last: int) -> bool:
        """True if all numbers from `first` to `last` are in the set."""
        return self.missing_from(first) > last
