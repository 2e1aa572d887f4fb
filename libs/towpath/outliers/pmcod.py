"""The algorithm `pmcod`: micro-clusters leave few values to be compared.

PMCOD of Toliopoulos, Gounaris, Tsichlas, Papadopoulos and Sampaio, "Continuous outlier mining of streaming
data in Flink" (Information Systems, 2020), on one partition, after MCOD of Kontaki and others (ICDE 2011).

- A *micro-cluster* has more than K values within R/2 of its centre. They are within R of each other, so none
  is an outlier.
- Each other value is *dispersed*. It knows the numbers of up to K earlier neighbours, the newest ones, and
  how many came later. With K later ones it is safe: they leave the window after it.
- A value that arrives is a later neighbour for the dispersed ones within R. It joins the nearest
  micro-cluster within R/2. Else, if K dispersed values are within R/2, they become a micro-cluster with it as
  the centre. Else it is dispersed, and finds its neighbours among the dispersed, and in micro-clusters within
  3R/2.
- A micro-cluster that expiry leaves with K values or fewer dissolves, and its values are inserted again.

In one dimension, order replaces lists of near micro-clusters: centres and dispersed values are sorted, so
those within a distance are a slice. Neighbours are found when a slide ends: many values that arrived, or were
inserted again, are in a micro-cluster by then.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from towpath.outliers.detection import Floats, Lonely, OutlierDetector

TOGETHER = 256
"""Members that are compared before it is asked whether they are enough: a list is faster than a generator."""


class MicroCluster:
    """More than K values within R/2 of a centre, which may itself have expired."""

    __slots__ = ("_is_ordered", "_members", "_newest", "centre")

    def __init__(self, centre: float, members: Iterable[tuple[int, float]]) -> None:
        self.centre = centre
        self._members = dict(members)
        self._newest = -1
        self._is_ordered = False

    def __len__(self) -> int:
        return len(self._members)

    def add(self, number: int, value: float) -> None:
        """Take in a value: the newest one, or one that another micro-cluster had."""
        if number < self._newest:
            self._is_ordered = False
        else:
            self._newest = number
        self._members[number] = value

    def remove(self, number: int) -> None:
        """Drop a value."""
        del self._members[number]

    def value(self, number: int) -> float:
        """Return the value of a number."""
        return self._members[number]

    def newest_first(self) -> Iterator[tuple[int, float]]:
        """Yield numbers and values."""
        if not self._is_ordered:
            self._members = dict(sorted(self._members.items()))
            self._newest = next(reversed(self._members), -1)
            self._is_ordered = True
        return reversed(self._members.items())


class Dispersed:
    """A value in no micro-cluster."""

    __slots__ = ("earlier", "later", "number", "value")

    def __init__(self, number: int, value: float) -> None:
        self.number = number
        self.value = value
        self.earlier: tuple[int, ...] = ()
        """Numbers of up to K neighbours that came before it, the newest ones, sorted."""
        self.later = 0
        """Neighbours that came after it. It is safe if there are K."""


class Pmcod(OutlierDetector):
    """Micro-clusters and dispersed values of a window."""

    def __init__(self, k: int, r: float) -> None:
        super().__init__(k, r)
        # The sum of two distances that round to R/2 rounds to R, unless R/2 has no double.
        self._half = r / 2 if r / 2 * 2 == r else 0.0
        self._near = 1.5 * r * (1 + 2**-50)
        """The largest distance of a centre that may have neighbours: 3R/2, and what rounding may add."""
        self._clear()

    def _clear(self) -> None:
        self._homes: dict[int, MicroCluster | Dispersed] = {}
        self._centres: list[float] = []
        self._clusters: list[MicroCluster] = []
        """Sorted by centre."""
        self._places: list[float] = []
        self._dispersed: list[Dispersed] = []
        """Sorted by value: `_places` are the values."""
        self._inserted: list[Dispersed] = []
        """Values that do not know their neighbours yet. Some may be in a micro-cluster by now."""

    def __len__(self) -> int:
        return len(self._homes)

    def _arrive(self, values: Sequence[float]) -> None:
        number = self.expired + len(self)
        for value in values:
            low, high = _within(self._places, value, self._r)
            for one in self._dispersed[low:high]:
                one.later += 1
            self._insert(number, value)
            number += 1

    def _insert(self, number: int, value: float) -> None:
        """Put a value into a micro-cluster, old or new, or among the dispersed."""
        cluster = self._nearest(value)
        if cluster is not None:
            cluster.add(number, value)
            self._homes[number] = cluster
            return
        low, high = _within(self._places, value, self._half)
        if high - low >= self._k:
            self._form(number, value, low, high)
            return
        one = self._homes[number] = Dispersed(number, value)
        at = bisect_right(self._places, value, low, high)
        self._places.insert(at, value)
        self._dispersed.insert(at, one)
        self._inserted.append(one)

    def _nearest(self, value: float) -> MicroCluster | None:
        """Return the nearest micro-cluster whose centre is within R/2."""
        centres = self._centres
        at = bisect_left(centres, value)
        above = centres[at] - value if at < len(centres) else math.inf
        below = value - centres[at - 1] if at else math.inf
        if min(above, below) > self._half:
            return None
        return self._clusters[at if above < below else at - 1]

    def _form(self, number: int, value: float, low: int, high: int) -> None:
        """Make a micro-cluster of a value and a slice of the dispersed."""
        members = [(one.number, one.value) for one in self._dispersed[low:high]]
        del self._places[low:high], self._dispersed[low:high]
        cluster = MicroCluster(value, [*members, (number, value)])
        for member, _ in cluster.newest_first():
            self._homes[member] = cluster
        at = bisect_left(self._centres, value)
        self._centres.insert(at, value)
        self._clusters.insert(at, cluster)

    def _find_neighbours(self, one: Dispersed) -> None:
        """Find the neighbours of a dispersed value: of a micro-cluster, the K newest ones are enough.

        Once one of them has expired, all that are older have expired, too.
        """
        value, r = one.value, self._r
        low, high = _within(self._places, value, r)
        numbers = [other.number for other in self._dispersed[low:high]]
        first = bisect_left(self._centres, value - self._near)
        for cluster in self._clusters[first : bisect_right(self._centres, value + self._near)]:
            members = cluster.newest_first()
            wanted = len(numbers) + self._k
            while len(numbers) < wanted and (some := [*islice(members, TOGETHER)]):
                numbers += [number for number, other in some if -r <= other - value <= r]
        numbers.sort()
        at = bisect_left(numbers, one.number)  # Where it finds itself.
        one.earlier = tuple(numbers[max(at - self._k, 0) : at])
        one.later = len(numbers) - at - 1

    def _expire(self, count: int) -> None:
        weak: dict[float, MicroCluster] = {}
        for number in range(self.expired, self.expired + count):
            home = self._homes.pop(number)
            if isinstance(home, Dispersed):
                at = self._dispersed.index(home, bisect_left(self._places, home.value))
                del self._places[at], self._dispersed[at]
            else:
                home.remove(number)
                if len(home) <= self._k:
                    weak[home.centre] = home
        self.expired += count
        self._dissolve(weak.values())

    def _dissolve(self, weak: Iterable[MicroCluster]) -> None:
        members: list[tuple[int, float]] = []
        for cluster in weak:
            at = bisect_left(self._centres, cluster.centre)
            del self._centres[at], self._clusters[at]
            members += cluster.newest_first()
        for number, value in sorted(members):
            self._insert(number, value)

    def _lonely(self) -> Lonely:
        for one in self._inserted:
            if self._homes.get(one.number) is one:
                self._find_neighbours(one)
        self._inserted.clear()
        oldest = self.expired
        unsafe = [one for one in self._dispersed if one.later < self._k]
        neighbours = np.array(
            [one.later + len(one.earlier) - bisect_left(one.earlier, oldest) for one in unsafe], np.int64
        )
        at = np.flatnonzero(neighbours < self._k)
        lonely = [unsafe[index] for index in at.tolist()]
        return Lonely(
            np.array([one.value for one in lonely], np.float64),
            np.array([one.number for one in lonely], np.int64),
            neighbours[at],
        )

    def _cluster_distances(self, values: Floats) -> Sequence[float | None]:
        if not self._centres:
            return super()._cluster_distances(values)
        centres = np.array([-np.inf, *self._centres, np.inf])
        at = np.searchsorted(centres, values)
        with np.errstate(over="ignore"):
            return np.minimum(centres[at] - values, values - centres[at - 1]).tolist()

    def saved(self) -> list[Any]:
        """See `OutlierDetector`. Values and number of the oldest, the micro-cluster of each, and the centres.

        Values alone would not do: which micro-clusters there are depends on values that have expired, and
        `cluster_distance` on them. What dispersed values know of neighbours follows from the rest.
        """
        indices = {id(cluster): index for index, cluster in enumerate(self._clusters)}
        homes = [self._homes[number] for number in range(self.expired, self.expired + len(self))]
        values = [
            home.value if isinstance(home, Dispersed) else home.value(number)
            for number, home in enumerate(homes, self.expired)
        ]
        return [
            self.expired,
            np.array(values, np.float64).tobytes(),
            np.array([indices.get(id(home), -1) for home in homes], np.int32).tobytes(),
            np.array(self._centres, np.float64).tobytes(),
        ]

    def restore(self, saved: list[Any]) -> None:
        """See `OutlierDetector`."""
        self._clear()
        self.expired = saved[0]
        self._centres = np.frombuffer(saved[3], np.float64).tolist()
        self._clusters = [MicroCluster(centre, ()) for centre in self._centres]
        values = np.frombuffer(saved[1], np.float64).tolist()
        homes = np.frombuffer(saved[2], np.int32).tolist()
        for number, (value, index) in enumerate(zip(values, homes, strict=True), self.expired):
            if index < 0:
                self._homes[number] = Dispersed(number, value)
            else:
                self._homes[number] = self._clusters[index]
                self._clusters[index].add(number, value)
        alone = [home for home in self._homes.values() if isinstance(home, Dispersed)]
        self._dispersed = sorted(alone, key=lambda one: one.value)
        self._places = [one.value for one in self._dispersed]
        self._inserted = alone


def _within(values: Sequence[float], value: float, radius: float) -> tuple[int, int]:
    """Return where sorted values begin and end that are within the radius of a value."""
    low = bisect_left(values, value - radius)
    high = bisect_right(values, value + radius, low)
    # Sums are rounded otherwise than differences, which decide.
    while low > 0 and value - values[low - 1] <= radius:
        low -= 1
    while low < high and value - values[low] > radius:
        low += 1
    while high < len(values) and values[high] - value <= radius:
        high += 1
    while high > low and values[high - 1] - value > radius:
        high -= 1
    return low, high
