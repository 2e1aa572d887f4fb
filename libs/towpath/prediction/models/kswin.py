"""The model `kswin`: compares the distribution of the newest numbers with that of older ones.

KSWIN of Raab, Heusinger and Schleif, "Reactive soft prototype computing for concept drift streams"
(Neurocomputing, 2020). Of a sliding window, the newest r numbers are compared with r of the others:

    alarm if the largest distance of their two distribution functions > √(-ln(significance) / r).

The paper draws the others at random. Here they are every so-many-th of the older ones, so that each run of a
job takes the same. After an alarm only the newest numbers stay.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, ClassVar

from towpath.prediction.registry import (
    ALARM,
    LEARNING,
    LOWER,
    NORMAL,
    UPPER,
    Detector,
    ModelKind,
    Sample,
    Verdict,
    register,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towpath.contracts.prediction import Kswin


class KswinDetector(Detector):
    """The window of one key."""

    KEPT: ClassVar = ("window",)

    def __init__(self, parameters: Kswin) -> None:
        self._parameters = parameters
        self._limit = math.sqrt(-math.log(parameters.significance) / parameters.recent_events)
        self.window: list[Any] = []
        """Number and place of each event, the oldest first."""

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        own = self._parameters
        self.window.append((sample.value, sample.place))
        del self.window[: -own.window_events]
        if len(self.window) < own.window_events:
            return Verdict(LEARNING, None, None, self._limit, None)
        recent = self.window[-own.recent_events :]
        older = self._older()
        new = sorted(value for value, _ in recent)
        statistic = distance(older, new)
        if statistic <= self._limit:
            return Verdict(NORMAL, None, statistic, self._limit, None)
        self.window = recent
        side = UPPER if sum(new) > sum(older) else LOWER
        return Verdict(ALARM, side, statistic, self._limit, recent[0][1])

    def _older(self) -> list[float]:
        """As many older numbers as newest ones, evenly spread over the window, sorted."""
        count = self._parameters.recent_events
        among = len(self.window) - count
        return sorted(self.window[n * among // count][0] for n in range(count))


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest distance of the distribution functions of two sorted samples of one size."""
    count = len(one)
    return max(abs(bisect_right(one, x) - bisect_right(other, x)) for x in (*one, *other)) / count


KSWIN = register(
    ModelKind(
        name="kswin",
        detector=KswinDetector,
        judging=frozenset({"significance"}),
    )
)
