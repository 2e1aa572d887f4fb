"""Compute the share of events that suffices for a promised error, from what was read so far.

For a share p of N events the relative error of an estimate has the variance c² · (1 - p) / (p · N). Here c²
is, for the mean of values, their variance over the square of their mean; for their sum one more; and for
their number 1. So p = 1 / (1 + e² · N / (z² · c²)) keeps the error e with the confidence of the quantile z
(Cochran, "Sampling Techniques", 1977, for Bernoulli samples).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from towpath.contracts.job import Assignment
from towpath.contracts.operators import Precision, Window, last_step
from towpath.queries.evaluation.estimates import normal_quantile
from towpath.queries.evaluation.totals import Weighted
from towpath.streams.encoding import CLOSED, KEY, VALUES
from towpath.streams.plain_values import members
from towpath.streams.thinning import LEAST_SHARE, stratum_of

CAUTION = 0.8
"""Part of the promised error that is planned for: the next windows may be unlike those seen."""

LEAST_EVENTS = 100
"""Events of each stratum that a window should have, for its own variance to be known."""

MEMORY = 8
"""Windows of the last so many ends count. A stratum that is in none of them is forgotten, and read whole."""

ENOUGH = 3
"""Windows of a stratum before it is thinned."""

STEPS_OF_TWO = 4
"""Shares are rounded up to powers of two and so many steps between. So they change seldom."""

MOST_STRATA = 1_000
"""The most frequent strata have a share, and all others are read whole: offsets hold all shares."""


@dataclass(frozen=True)
class ClosedWindow:
    """A result of a window."""

    end: int
    key: Mapping[str, str]
    values: Mapping[str, float | None]


@dataclass
class _Seen:
    """The sums of a stratum, by argument, of each of its last windows."""

    windows: deque[tuple[int, dict[str, Weighted]]] = field(default_factory=lambda: deque(maxlen=MEMORY))

    def at(self, end: int) -> dict[str, Weighted]:
        """Return the sums of a window."""
        if not self.windows or self.windows[-1][0] != end:
            self.windows.append((end, {}))
        return self.windows[-1][1]


class SampleSizes:
    """Learns from windows which shares of events suffice."""

    def __init__(self, precision: Sequence[Precision], strata: Sequence[str]) -> None:
        """`strata` are the fields of the window's key that tell strata apart."""
        self._precision = precision
        self._strata = strata
        self._seen: dict[tuple[str, ...], _Seen] = {}
        self._ends: deque[int] = deque(maxlen=MEMORY)

    def take_in(self, windows: Iterable[ClosedWindow]) -> None:
        """Learn from windows that have closed."""
        for window in sorted(windows, key=lambda window: window.end):
            if not self._ends or window.end > self._ends[-1]:
                self._ends.append(window.end)
            stratum = tuple(window.key.get(name, "") for name in self._strata)
            sums = self._seen.setdefault(stratum, _Seen()).at(window.end)
            for name, found in self._sums_of(window).items():
                sums.setdefault(name, Weighted()).add(found)
        if self._ends:
            oldest = self._ends[0]
            self._seen = {
                stratum: seen for stratum, seen in self._seen.items() if seen.windows[-1][0] >= oldest
            }

    def shares(self) -> dict[str, float]:
        """Return stratum → share, for those that need not be read whole."""
        wanted: dict[tuple[str, ...], float] = {}
        for precision in self._precision:
            for stratum, share in self._wanted(precision).items():
                wanted[stratum] = max(share, wanted.get(stratum, 0.0))
        known = [one for one in wanted if wanted[one] < 1 and len(self._seen[one].windows) >= ENOUGH]
        frequent = sorted(known, key=lambda one: -self._mean(one, self._precision[0]).weight)[:MOST_STRATA]
        return {stratum_of(one): wanted[one] for one in sorted(frequent)}

    def _sums_of(self, window: ClosedWindow) -> dict[str, Weighted]:
        """Return the sums by argument. A number of values needs fewer of them than a mean of the same."""
        found: dict[str, Weighted] = {}
        for one in self._precision:
            sums = found.setdefault(one.weight, Weighted(window.values.get(one.weight) or 0.0))
            if one.sum is not None and one.squares is not None:
                sums.weighted = window.values.get(one.sum) or 0.0
                sums.squares = window.values.get(one.squares) or 0.0
        return found

    def _wanted(self, precision: Precision) -> dict[tuple[str, ...], float]:
        """Return the share that each stratum needs: alike for all that are in one result."""
        places = [at for at, name in enumerate(self._strata) if name in precision.key]
        groups: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for stratum in self._seen:
            groups.setdefault(tuple(stratum[at] for at in places), []).append(stratum)
        wanted = {}
        for strata in groups.values():
            newest, mean = Weighted(), Weighted()
            for stratum in strata:
                newest.add(self._seen[stratum].windows[-1][1].get(precision.weight, Weighted()))
                mean.add(self._mean(stratum, precision))
            share = max(_share(precision, newest), _share(precision, mean))
            least = LEAST_EVENTS * len(strata) / (mean.weight * precision.windows or 1)
            wanted |= dict.fromkeys(strata, _rounded(max(share, least)))
        return wanted

    def _mean(self, stratum: tuple[str, ...], precision: Precision) -> Weighted:
        windows = self._seen[stratum].windows
        found = Weighted()
        for _, sums in windows:
            found.add(sums.get(precision.weight, Weighted()))
        count = len(windows)
        return Weighted(found.weight / count, found.weighted / count, found.squares / count)


def sample_sizes_of(assignment: Assignment) -> SampleSizes | None:
    """Return what learns from a job's results; None if the job needs all events."""
    last = last_step(assignment.spec.operator)
    thinning = next((one.thinning for one in assignment.inputs if one.thinning is not None), None)
    if thinning is None or not isinstance(last, Window) or not last.precision:
        return None
    return SampleSizes(last.precision, [*thinning.strata.values()])


def windows_of_results(table: pa.Table) -> list[ClosedWindow]:
    """Return windows from the columns of their results."""
    ends = members(table.column(CLOSED).combine_chunks())["end"].cast(pa.int64()).to_pylist()
    values = table.column(VALUES).to_pylist()
    keys = table.column(KEY).to_pylist() if KEY in table.column_names else [{}] * table.num_rows
    return [ClosedWindow(*row) for row in zip(ends, keys, values, strict=True)]


def _share(precision: Precision, sums: Weighted) -> float:
    """Return the share of events that suffices for windows with these sums."""
    if sums.weight <= 0:
        return 1.0
    spread = 1.0
    if precision.of != "count":
        mean = sums.weighted / sums.weight
        if mean == 0:
            return 1.0
        spread = sums.squares / sums.weight / mean**2 - (precision.of == "mean")
    allowed = CAUTION * precision.max_error / normal_quantile(precision.confidence)
    room = allowed**2 * sums.weight * precision.windows
    return 1 / (1 + room / spread) if spread > 0 else 0.0


def _rounded(share: float) -> float:
    """Return a share that is no less, and one of few."""
    if share >= 1:
        return 1.0
    step = math.ceil(math.log2(max(share, LEAST_SHARE)) * STEPS_OF_TWO)
    return min(2 ** (step / STEPS_OF_TWO), 1.0)
