"""The history of a node, and its instability U and stability S by RAINBOW (D4.2, stability-based placement).

A failure is recorded when a node stops answering without having announced it. A restart is recorded when a
node answers again, after a failure or after a planned stop. A planned stop is no failure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

DAY_S = 86_400.0

NEW_UNDER_S = 2 * DAY_S
OLD_OVER_S = 7 * DAY_S

FAILURE_WEIGHT = 3
"""A failure counts as much as three restarts in S."""


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
