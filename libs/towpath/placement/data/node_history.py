"""The history of a node, its availability, and its instability U and stability S by RAINBOW (D4.2).

A failure is recorded when a node stops answering without having announced it. A restart is recorded when a
node answers again, after a failure or after a planned stop. A planned stop is no failure.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

DAY_S = 86_400.0

NEW_UNDER_S = 2 * DAY_S
OLD_OVER_S = 7 * DAY_S

FAILURE_WEIGHT = 3
"""A failure counts as much as three restarts in S."""

HALF_LIFE_S = 1800.0
"""Age at which an outage counts half."""

LEAST_OUTAGE_S = 60.0
"""A failure costs at least as much: a job has to restart and catch up, however soon the site is back."""


class Age(Enum):
    """Age class of a failure; its value is the factor of the number of failures of that class."""

    OLD = 0.5
    """More than a week."""
    MIDDLE = 1.0
    """From two days to a week, both included."""
    NEW = 2.0
    """Less than two days."""


@dataclass(frozen=True)
class NodeHistory:
    """Times at which a node was first seen, failed and came back, in seconds of one clock."""

    start_s: float
    failures_s: tuple[float, ...] = ()
    """In order, each later than the one before. The first is later than `start_s`."""
    restarts_s: tuple[float, ...] = ()
    """In order."""

    def __post_init__(self) -> None:
        times = (self.start_s, *self.failures_s, *self.restarts_s)
        if not all(map(math.isfinite, times)):
            raise ValueError(f"times of a node's history must be finite, not {times}")
        if any(later <= earlier for earlier, later in pairwise((self.start_s, *self.failures_s))):
            raise ValueError("failures must be in order, without repeats, and later than the start")
        if any(later < earlier for earlier, later in pairwise((self.start_s, *self.restarts_s))):
            raise ValueError("restarts must be in order, and not earlier than the start")

    def failures_within(self, window_s: float, now_s: float) -> int:
        """Return the number of failures that are less than `window_s` old."""
        return sum(now_s - failure < window_s for failure in self.failures_s)


def age_class(failure_s: float, now_s: float) -> Age:
    """Return the age class of a failure. One in the future, by a clock that is ahead, is new."""
    age_s = now_s - failure_s
    if age_s < NEW_UNDER_S:
        return Age.NEW
    return Age.OLD if age_s > OLD_OVER_S else Age.MIDDLE


def instability_per_s(history: NodeHistory, now_s: float) -> float:
    """Return U, in 1/s: 0 without failures, large if failures follow each other closely.

    `U = Σ_{i=1}^{n-1} a_i / (fails[i] - fails[i-1]) + a_0 / (fails[0] - start)` with n failures. a_i is the
    factor of the failure's age class times the number of failures of that class. The source prints n as the
    last index of the sum, where no failure is; n - 1 is meant.
    """
    ages = [age_class(failure, now_s) for failure in history.failures_s]
    weights = {age: age.value * ages.count(age) for age in Age}
    gaps_s = (later - earlier for earlier, later in pairwise((history.start_s, *history.failures_s)))
    return sum(weights[age] / gap_s for age, gap_s in zip(ages, gaps_s, strict=True))


def stability_node_s(history: NodeHistory, now_s: float) -> float:
    """Return S, in seconds of the node's age: 0 is best.

    `S = -(restarts + 3 × failures) × (now - start)`. The factor is the age, so one failure counts more for a
    node that has been there for a year than for one that came today. The source prints it so, and it is kept:
    between two nodes that failed equally often, the younger one is preferred. A start in the future has age
    0.
    """
    events = len(history.restarts_s) + FAILURE_WEIGHT * len(history.failures_s)
    return -events * max(now_s - history.start_s, 0.0)


def availability(history: NodeHistory, now_s: float) -> float:
    """Return the share of time in which a site will be up in the near future: 1 without a recent failure.

    `1 − Σ ∫ w(t) dt / ∫ w(t) dt`, where the sum is over outages and the lower integral over the last day,
    with `w(t) = 2^(−(now − t) / 1800 s)`. An outage lasts from a failure to the next restart, or until now,
    and at least 60 s. So a failure a moment ago makes 0.977, three in ten minutes 0.94, and after an hour
    and a half without a further one those three make 0.99.
    """
    lost = 0.0
    for failure_s in history.failures_s:
        if not now_s - DAY_S < failure_s <= now_s:
            continue
        number = bisect_left(history.restarts_s, failure_s)
        up_s = history.restarts_s[number] if number < len(history.restarts_s) else now_s
        ends_s = max(min(up_s, now_s), failure_s + LEAST_OUTAGE_S)
        lost += _weight(failure_s, ends_s, now_s)
    return max(0.0, 1 - lost / _weight(now_s - DAY_S, now_s, now_s))


def _weight(from_s: float, to_s: float, now_s: float) -> float:
    """Return the integral of weights, which are 1 in the future."""
    past = [2 ** (-(now_s - min(at_s, now_s)) / HALF_LIFE_S) for at_s in (from_s, to_s)]
    return (past[1] - past[0]) * HALF_LIFE_S / math.log(2) + max(0.0, to_s - now_s)
