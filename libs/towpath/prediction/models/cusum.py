"""The model `cusum`: cumulative sums of what lies beyond a slack from the mean, one for each side.

The tabular form, as in the NIST/SEMATECH e-Handbook of Statistical Methods, section 6.3.2.3, after E. S.
Page, "Continuous inspection schemes" (Biometrika, 1954). With mean m, slack k and threshold h:

    upper ← max(0, upper + x - m - k),  lower ← max(0, lower + m - k - x),  alarm if either > h.

The head start is that of Lucas and Crosier, "Fast initial response for CUSUM quality-control schemes"
(Technometrics, 1982).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from towpath.prediction.reference import CHART_JUDGING, CHART_WRITES, Reference
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
    from towpath.contracts.prediction import Cusum

SLACK, THRESHOLD = 0.5, 5.0
"""In deviations. Both sides together, a shift of one deviation is found after 10 events on average, and there
is a false alarm in 465 (D. C. Montgomery, "Introduction to Statistical Quality Control", on the tabular
CUSUM)."""


class CusumDetector(Detector):
    """The sums of one key, in the unit of the numbers."""

    KEPT: ClassVar = ("reference", "upper", "lower", "upper_since", "lower_since", "is_begun")

    def __init__(self, parameters: Cusum) -> None:
        self._parameters = parameters
        self.reference = Reference(parameters)
        self.upper = self.lower = 0.0
        self.upper_since: Place | None = None
        self.lower_since: Place | None = None
        self.is_begun = False
        self._limits: tuple[float, float, float] | None = None
        self._told: tuple[float | None, float | None] = (None, None)

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        if self._limits is None:
            if not self.reference.is_known:
                self.reference.learn(sample.value)
                return Verdict(LEARNING, None, None, None, None, (None, None, *self.reference.told))
            self._limits, self._told = self._frozen_limits(), self.reference.told
        mean, slack, threshold = self._limits
        if not self.is_begun:
            self._begin(threshold, sample.place)
        self._add(sample, mean, slack)
        return self._judged(threshold)

    def _frozen_limits(self) -> tuple[float, float, float]:
        own, unit = self._parameters, self.reference.unit
        slack = SLACK if own.slack is None else own.slack
        threshold = THRESHOLD if own.threshold is None else own.threshold
        return self.reference.mean, slack * unit, threshold * unit

    def _begin(self, threshold: float, place: Place) -> None:
        start = self._parameters.head_start * threshold
        side = self._parameters.side
        self.upper = 0.0 if side == LOWER else start
        self.lower = 0.0 if side == UPPER else start
        self.upper_since = place if self.upper > 0 else None
        self.lower_since = place if self.lower > 0 else None
        self.is_begun = True

    def _add(self, sample: Sample, mean: float, slack: float) -> None:
        side = self._parameters.side
        upper = 0.0 if side == LOWER else self.upper + sample.value - mean - slack
        lower = 0.0 if side == UPPER else self.lower + mean - slack - sample.value
        self.upper, self.lower = max(upper, 0.0), max(lower, 0.0)
        if self.upper <= 0:
            self.upper_since = None
        elif self.upper_since is None:
            self.upper_since = sample.place
        if self.lower <= 0:
            self.lower_since = None
        elif self.lower_since is None:
            self.lower_since = sample.place

    def _judged(self, threshold: float) -> Verdict:
        is_upper = self.upper >= self.lower
        statistic = self.upper if is_upper else self.lower
        since = self.upper_since if is_upper else self.lower_since
        own = (self.upper, self.lower, *self._told)
        if statistic <= threshold:
            return Verdict(NORMAL, None, statistic, threshold, since, own)
        if self._parameters.reset:
            self.is_begun = False
        return Verdict(ALARM, UPPER if is_upper else LOWER, statistic, threshold, since, own)


CUSUM = register(
    ModelKind(
        name="cusum",
        detector=CusumDetector,
        judging=CHART_JUDGING | {"slack", "threshold", "head_start", "reset"},
        writes=lambda parameters: {"upper_sum": "double", "lower_sum": "double", **CHART_WRITES},
    )
)
