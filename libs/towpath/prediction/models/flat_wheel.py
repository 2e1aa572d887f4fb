"""The model `flat_wheel`: impacts of a wheel's flat spot, which come at one angle, turn after turn.

Angular-domain synchronous averaging of the axle box's acceleration: the mean over several turns, by the angle
of the wheel. What a flat spot adds comes at one angle and stays in the mean; rail joints, switches and noise
come at any angle and fade. The averaged turn of a sound wheel lies around zero, that of a damaged one has a
clear peak ("angular domain synchronous averaging", Structural Health Monitoring, 2023, doi
10.1177/14759217231166569, with tests on a tank wagon). The peak is judged by the crest factor, largest value
by root mean square, the usual measure of impacts in a vibration. That the turn of a wheel is the right axis
is also the finding of Baasch and others, "Train wheel condition monitoring via cepstral analysis of axle box
accelerations" (Applied Sciences, 2021).

The angle is the distance travelled, in circumferences. A turn moves the averaged turn by an exponential
weight of `turns` turns. One measurement moves it by no more than noise would (as in Huber's M-estimator of
location, 1964): a rail joint shakes the wheel harder than many a flat spot. The averaged turn is judged when
a turn ends.
"""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, ClassVar

from towpath.prediction.registry import (
    ALARM,
    LEARNING,
    NORMAL,
    Detector,
    ModelKind,
    Place,
    Sample,
    Verdict,
    register,
)

if TYPE_CHECKING:
    from towpath.contracts.prediction import FlatWheel

MICROSECONDS = 1_000_000
LIMIT = 3.0
"""Spreads of a turn by which a measurement may lie off the averaged turn. Others count as that far."""
LONGEST_GAP_S = 1.0
"""After a longer pause between two events the angle is unknown: what was averaged is forgotten."""


class FlatWheelDetector(Detector):
    """The averaged turn of one wheel."""

    KEPT: ClassVar = ("angle", "turns", "averaged", "sums", "counts", "time", "verdict", "since")

    def __init__(self, parameters: FlatWheel) -> None:
        self._parameters = parameters
        self._circumference = math.pi * parameters.diameter_m
        self._weight = 1 - math.exp(-1 / parameters.turns)
        self.time: int | None = None
        """Of the event before, microseconds since 1970."""
        self._forget()

    def _forget(self) -> None:
        angles = self._parameters.angles
        self.angle = 0.0
        """Of the wheel, in turns, since the beginning of the turn."""
        self.turns = 0
        self.averaged: list[float | None] = [None] * angles
        self.sums, self.counts = [0.0] * angles, [0] * angles
        """Of the turn under way, by angle."""
        self.since: Place | None = None
        """The first event of the alarms in a row."""
        self.verdict: list[float | None] = [None, None]
        """Statistic of the last turn, and the angle of its peak in degrees."""

    def see(self, sample: Sample) -> Verdict:
        """See `Detector`."""
        self._turn(sample)
        position = int(self.angle * self._parameters.angles)
        self.sums[position] += sample.value
        self.counts[position] += 1
        limit = self._parameters.crest_factor
        statistic, peak = self.verdict
        if self.turns < self._parameters.turns or statistic is None:
            return Verdict(LEARNING, None, statistic, limit, None, (peak, self.turns))
        is_alarm = statistic > limit
        self.since = (self.since or sample.place) if is_alarm else None
        return Verdict(ALARM if is_alarm else NORMAL, None, statistic, limit, self.since, (peak, self.turns))

    def _turn(self, sample: Sample) -> None:
        """Move the wheel on to the angle of an event."""
        now, before, rate = sample.place[1], self.time, self._parameters.sample_rate_hz
        # An event that is older than the one before it moves nothing.
        gap_s = 0.0 if before is None else max(now - before, 0) / MICROSECONDS
        self.time = now if before is None else max(now, before)
        if gap_s > LONGEST_GAP_S:
            self._forget()
            return
        step_s = gap_s if rate is None else 1 / rate
        self.angle += abs(sample.beside[0]) * step_s / self._circumference
        if self.angle >= 1:
            # More than a turn between two measurements is too few of them: the mean then finds nothing.
            self.angle %= 1
            self._end_turn()

    def _end_turn(self) -> None:
        """Move the averaged turn towards the one that ends."""
        means = [
            total / count if count else None for total, count in zip(self.sums, self.counts, strict=True)
        ]
        furthest = LIMIT * _spread([mean for mean in means if mean is not None])
        for position, (mean, before) in enumerate(zip(means, self.averaged, strict=True)):
            if mean is not None:
                distance = mean - (before or 0.0)
                step = min(max(distance, -furthest), furthest)
                self.averaged[position] = (before or 0.0) + self._weight * step
        self.sums, self.counts = [0.0] * len(self.sums), [0] * len(self.counts)
        self.turns += 1
        self.verdict = self._judged()

    def _judged(self) -> list[float | None]:
        """Crest factor of the averaged turn, and the angle of its peak."""
        known = [mean for mean in self.averaged if mean is not None]
        if len(known) < len(self.averaged):
            return [None, None]
        middle = sum(known) / len(known)
        distances = [abs(mean - middle) for mean in known]
        rms = math.sqrt(sum(distance * distance for distance in distances) / len(known))
        if rms == 0:
            return [0.0, None]
        largest = max(distances)
        return [largest / rms, 360 * distances.index(largest) / len(known)]


def _spread(numbers: list[float]) -> float:
    """The median distance from the median, scaled to the standard deviation of noise."""
    if not numbers:
        return 0.0
    middle = median(numbers)
    return 1.4826 * median([abs(number - middle) for number in numbers])


FLAT_WHEEL = register(
    ModelKind(
        name="flat_wheel",
        detector=FlatWheelDetector,
        judging=frozenset({"crest_factor"}),
        writes=lambda parameters: {"peak_angle": "double", "turns": "long"},
        beside=lambda parameters: (parameters.speed,),
    )
)
