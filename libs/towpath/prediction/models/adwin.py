"""The model `adwin`: a window that shrinks when its recent part has another mean than its older part.

ADWIN2 of Bifet and Gavaldà, "Learning from time-changing data with adaptive windowing" (SDM 2007). Numbers
are kept in buckets of 1, 2, 4… of them, each with their sum and their squared distances from the bucket's
mean. For each border between buckets, with n0 and n1 numbers beside it, n in all, variance v, confidence d:

    m = 1 / (1/n0 + 1/n1),  D = ln(2 ln(n) / d),  alarm if |mean0 - mean1| > √(2 v D / m) + 2 D / (3 m).

Then the oldest bucket goes, and the test is repeated. The test is made for numbers between 0 and 1: others
should be scaled, because the last term of the limit has no unit. The state grows with the logarithm of the
window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from towpath.prediction.registry import (
    ALARM,
    LEARNING,
    LOWER,
    NORMAL,
    UPPER,
    Detector,
    ModelKind,
    Place,
    Sample,
    Verdict,
    register,
)

if TYPE_CHECKING:
    from towpath.contracts.prediction import Adwin


class Border(NamedTuple):
    """A place that divides the window in two parts."""

    rise: float
    """Mean of the recent part less that of the older one."""
    limit: float
    """The largest distance of the means that may be chance."""
    place: Place
    """The oldest event of the recent part."""


class AdwinDetector(Detector):
    """The window of one key."""

    KEPT: ClassVar = ("seen", "width", "total", "rows", "statistic", "limit")

    def __init__(self, parameters: Adwin) -> None:
        self._parameters = parameters
        self.seen = 0
        self.width = 0
        self.total = 0.0
        self.rows: list[list[list[Any]]] = [[]]
        """Row n has the buckets of 2^n numbers, the oldest first: their sum, their squared distances, and the
        place of their oldest number."""
        self.statistic: float | None = None
        self.limit: float | None = None
        """Of the last test."""

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        self.rows[0].append([sample.value, 0.0, sample.place])
        self.seen, self.width, self.total = self.seen + 1, self.width + 1, self.total + sample.value
        self._merge()
        own = self._parameters
        is_ready = self.width > own.learn_events
        cut = self._shrunk() if is_ready and self.seen % own.every_events == 0 else None
        told = (self.total / self.width, self.width)
        if cut is None:
            state = NORMAL if is_ready else LEARNING
            return Verdict(state, None, self.statistic, self.limit, None, told)
        return Verdict(ALARM, UPPER if cut.rise > 0 else LOWER, self.statistic, self.limit, cut.place, told)

    def _merge(self) -> None:
        """Merge the two oldest buckets of each row that has too many."""
        for number, row in enumerate(self.rows):
            if len(row) <= self._parameters.buckets:
                return
            if number + 1 == len(self.rows):
                self.rows.append([])
            one, other, size = row.pop(0), row.pop(0), 2**number
            squares = one[1] + other[1] + (one[0] - other[0]) ** 2 / (2 * size)
            self.rows[number + 1].append([one[0] + other[0], squares, one[2]])

    def _shrunk(self) -> Border | None:
        """Drop the oldest buckets until no border shows a change. Return the last border that did."""
        found = None
        while (worst := self._worst_border()) is not None:
            self.statistic, self.limit = abs(worst.rise), worst.limit
            if abs(worst.rise) <= worst.limit:
                break
            found = worst
            self._drop_oldest()
        if found is not None:
            self.statistic, self.limit = abs(found.rise), found.limit
        return found

    def _drop_oldest(self) -> None:
        self.rows[-1].pop(0)
        self.width -= 2 ** (len(self.rows) - 1)
        while len(self.rows) > 1 and not self.rows[-1]:
            self.rows.pop()
        self.total = sum(total for _, total, _, _ in self._buckets())

    def _buckets(self) -> Iterator[tuple[int, float, float, Place]]:
        """The buckets from the oldest: how many numbers, sum, squared distances, place."""
        for number in range(len(self.rows) - 1, -1, -1):
            for total, squares, place in self.rows[number]:
                yield 2**number, total, squares, place

    def _worst_border(self) -> Border | None:
        """The border whose difference exceeds its limit by the largest factor; None if there is none."""
        buckets = [*self._buckets()]
        width, total, squares = 0, 0.0, 0.0
        for count, each, own_squares, _ in buckets:
            if width:
                squares += (each / count - total / width) ** 2 * count * width / (count + width)
            width, total, squares = width + count, total + each, squares + own_squares
        scale = math.log(2 * math.log(width) / self._parameters.confidence) if width > 1 else 0.0
        variance, least = squares / width, self._parameters.least_events
        worst, older, older_total = None, 0, 0.0
        for (count, each, _, _), (_, _, _, place) in pairwise(buckets):
            older, older_total = older + count, older_total + each
            recent = width - older
            if older < least or recent < least:
                continue
            inverse = 1 / older + 1 / recent
            limit = math.sqrt(2 * inverse * variance * scale) + 2 / 3 * inverse * scale
            rise = (total - older_total) / recent - older_total / older
            if worst is None or abs(rise) * worst.limit > abs(worst.rise) * limit:
                worst = Border(rise, limit, place)
        return worst


ADWIN = register(
    ModelKind(
        name="adwin",
        detector=AdwinDetector,
        judging=frozenset({"confidence", "every_events", "least_events", "learn_events"}),
        writes=lambda parameters: {"mean": "double", "width": "long"},
    )
)
