"""The reference of control charts: mean and standard deviation while nothing is wrong."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from towpath.prediction.kept import Kept

if TYPE_CHECKING:
    from towpath.contracts.prediction import Chart

CHART_WRITES = {"mean": "double", "deviation": "double"}
"""Fields of a chart's results that tell its reference; null while it is learnt."""

CHART_JUDGING = frozenset({"side", "unit"})


class Reference(Kept):
    """Mean and standard deviation, given or learnt from the first numbers and then frozen.

    Learns by Welford's recurrence ("Note on a method for calculating corrected sums of squares and products",
    Technometrics, 1962). The deviation is that of a sample. If all numbers were equal it is zero, and limits
    in deviations are zero: then any other number is beyond them.
    """

    KEPT: ClassVar = ("seen", "mean", "squares")

    def __init__(self, chart: Chart) -> None:
        self._is_given = chart.mean is not None
        self._learn_events = chart.learn_events
        self._given_deviation = chart.deviation
        self._is_absolute = chart.unit == "absolute"
        self.seen = 0
        self.mean = 0.0 if chart.mean is None else chart.mean
        self.squares = 0.0
        """Sum of the squared distances from the mean."""

    @property
    def is_known(self) -> bool:
        """True when numbers are judged."""
        return self._is_given or self.seen >= self._learn_events

    @property
    def deviation(self) -> float | None:
        """The standard deviation; None where the mean is given without one."""
        if self._is_given:
            return self._given_deviation
        return math.sqrt(self.squares / (self.seen - 1)) if self.seen > 1 else None

    @property
    def unit(self) -> float:
        """The factor that turns a limit of the chart into one in the unit of the numbers."""
        return 1.0 if self._is_absolute else self.deviation or 0.0

    def learn(self, value: float) -> None:
        """Take in one of the first numbers."""
        self.seen += 1
        distance = value - self.mean
        self.mean += distance / self.seen
        self.squares += distance * (value - self.mean)

    @property
    def told(self) -> tuple[float | None, float | None]:
        """The values of `CHART_WRITES`."""
        return (self.mean, self.deviation) if self.is_known else (None, None)
