"""The model `ewma`: control limits for an exponentially weighted moving average.

As in the NIST/SEMATECH e-Handbook of Statistical Methods, section 6.3.2.4, after S. W. Roberts, "Control
chart tests based on geometric moving averages" (Technometrics, 1959). With weight w, mean m and deviation s:

    average ← w x + (1 - w) average, which begins at m;  alarm if |average - m| > limit s √(w / (2 - w)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from towpath.prediction.reference import CHART_JUDGING, CHART_WRITES, Reference
from towpath.prediction.registry import LEARNING, Detector, ModelKind, Place, Sample, Verdict, register
from towpath.prediction.sides import beyond

if TYPE_CHECKING:
    from towpath.contracts.prediction import Ewma


class EwmaDetector(Detector):
    """The average of one key."""

    KEPT: ClassVar = ("reference", "average", "since", "since_side")

    def __init__(self, parameters: Ewma) -> None:
        self._parameters = parameters
        self._narrower = (
            1.0 if parameters.unit == "absolute" else math.sqrt(parameters.weight / (2 - parameters.weight))
        )
        self.reference = Reference(parameters)
        self.average: float | None = None
        self.since: Place | None = None
        """The first of the events in a row at which the average is beyond the limit on one side."""
        self.since_side: str | None = None

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        if not self.reference.is_known:
            self.reference.learn(sample.value)
            return Verdict(LEARNING, None, None, None, None, (None, *self.reference.told))
        weight, mean = self._parameters.weight, self.reference.mean
        before = mean if self.average is None else self.average
        self.average = weight * sample.value + (1 - weight) * before
        limit = self._parameters.limit * self.reference.unit * self._narrower
        state, side, statistic = beyond(self.average - mean, limit, self._parameters.side)
        if side is None or side != self.since_side:
            self.since = sample.place if side else None
            self.since_side = side
        own = (self.average, *self.reference.told)
        return Verdict(state, side, statistic, limit, self.since, own)


EWMA = register(
    ModelKind(
        name="ewma",
        detector=EwmaDetector,
        judging=CHART_JUDGING | {"limit"},
        writes=lambda parameters: {"average": "double", **CHART_WRITES},
    )
)
