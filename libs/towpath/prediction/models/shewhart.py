"""The model `shewhart`: control limits at a distance from the mean, for each number by itself.

The chart for individual measurements of the NIST/SEMATECH e-Handbook of Statistical Methods, section 6.3.2.2,
with the sample standard deviation in place of the moving range. The statistic is the distance from the mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from towpath.prediction.reference import CHART_JUDGING, CHART_WRITES, Reference
from towpath.prediction.registry import LEARNING, Detector, ModelKind, Place, Sample, Verdict, register
from towpath.prediction.sides import beyond

if TYPE_CHECKING:
    from towpath.contracts.prediction import Shewhart


class ShewhartDetector(Detector):
    """The chart of one key."""

    KEPT: ClassVar = ("reference", "since", "since_side")

    def __init__(self, parameters: Shewhart) -> None:
        self._parameters = parameters
        self.reference = Reference(parameters)
        self.since: Place | None = None
        """The first of the numbers in a row that are beyond the limit on one side."""
        self.since_side: str | None = None

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        if not self.reference.is_known:
            self.reference.learn(sample.value)
            return Verdict(LEARNING, None, None, None, None, self.reference.told)
        distance = sample.value - self.reference.mean
        limit = self._parameters.limit * self.reference.unit
        state, side, statistic = beyond(distance, limit, self._parameters.side)
        if side is None or side != self.since_side:
            self.since = sample.place if side else None
            self.since_side = side
        return Verdict(state, side, statistic, limit, self.since, self.reference.told)


SHEWHART = register(
    ModelKind(
        name="shewhart",
        detector=ShewhartDetector,
        judging=CHART_JUDGING | {"limit"},
        writes=lambda parameters: CHART_WRITES,
    )
)
