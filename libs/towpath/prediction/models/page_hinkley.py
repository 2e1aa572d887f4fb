"""The model `page_hinkley`: how far a sum of distances from the mean so far has come from its extreme.

After D. V. Hinkley, "Inference about the change-point from cumulative sum tests" (Biometrika, 1971), with the
forgetting factor of Gama, Sebastião and Rodrigues, "On evaluating stream learning algorithms" (Machine
Learning, 2013). With d = x - mean so far, tolerance t, memory a:

    up ← a up + d - t;  down ← a down + d + t;  alarm if up - (least up) or (largest down) - down > threshold.

After an alarm it begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

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
    from towpath.contracts.prediction import PageHinkley


class PageHinkleyDetector(Detector):
    """The sums of one key."""

    KEPT: ClassVar = ("seen", "mean", "up", "least", "down", "largest", "up_since", "down_since")

    def __init__(self, parameters: PageHinkley) -> None:
        self._parameters = parameters
        self._begin()

    def _begin(self) -> None:
        self.seen = 0
        self.mean = 0.0
        self.up = self.least = self.down = self.largest = 0.0
        self.up_since: Place | None = None
        self.down_since: Place | None = None

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        self._add(sample.value)
        rise, fall = self.up - self.least, self.largest - self.down
        self.up_since = (self.up_since or sample.place) if rise > 0 else None
        self.down_since = (self.down_since or sample.place) if fall > 0 else None
        wanted = self._parameters.side
        is_upper = wanted == UPPER or (wanted != LOWER and rise >= fall)
        statistic = rise if is_upper else fall
        since = self.up_since if is_upper else self.down_since
        limit, own = self._parameters.threshold, (self.mean,)
        if self.seen < self._parameters.learn_events:
            return Verdict(LEARNING, None, statistic, limit, since, own)
        if statistic <= limit:
            return Verdict(NORMAL, None, statistic, limit, since, own)
        self._begin()
        return Verdict(ALARM, UPPER if is_upper else LOWER, statistic, limit, since, own)

    def _add(self, value: float) -> None:
        memory, tolerance = self._parameters.memory, self._parameters.tolerance
        self.seen += 1
        self.mean += (value - self.mean) / self.seen
        distance = value - self.mean
        self.up = memory * self.up + distance - tolerance
        self.down = memory * self.down + distance + tolerance
        if self.seen == 1:
            self.least, self.largest = self.up, self.down
        self.least = min(self.least, self.up)
        self.largest = max(self.largest, self.down)


PAGE_HINKLEY = register(
    ModelKind(
        name="page_hinkley",
        detector=PageHinkleyDetector,
        judging=frozenset({"side", "learn_events", "tolerance", "threshold"}),
        writes=lambda parameters: {"mean": "double"},
    )
)
