"""Power against latency with a weight w, as PerfEnergyScheduler of RAINBOW D4.2.

w = 0 is `performance`. w = 1 minimises the power that jobs add; among sites with enough cores and memory
that is the order "least hungry first". The source leaves open how w mixes the two. Between, this policy
minimises

    (1 − w) · (L − L₀) / (L₁ − L₀)  +  w · (P − P₁) / (P₀ − P₁)

where L₀, P₀ are latency and added power of the fastest placement, and L₁, P₁ those of the one that adds
least: a weighted sum between the two extremes (Marler and Arora, Structural and Multidisciplinary
Optimization 26, 2004). So w needs no units, and w = 0.5 weighs half of what can be gained on either side
alike.

Where placements are alike in that, the one whose bytes over links cost less is taken, then the faster one.
With any w > 0, sites on battery come last: as few cores there as possible, and sooner at a fuller battery.
Power is linear between idle and active; sites stay on, so idle power plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from towpath.placement.jobs.optimising import least
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.scores import Floats, Objective, Places, Scorer, Scores
from towpath.placement.jobs.view import MeshView, Placement


@dataclass(frozen=True)
class Energy:
    """Power against latency."""

    name: ClassVar[str] = "energy"
    summary: ClassVar[str] = (
        "power against latency: weight 0 is performance, 1 is power alone; batteries last"
    )

    weight: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise ValueError(f"weight is {self.weight}; allowed: from 0 to 1")

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return a site for each job. Raise `NoFeasiblePlacement` if none is found."""
        scorer = Scorer(view)
        if self.weight == 0:
            return scorer.placement(least(scorer, latency_first, seed))
        leanest = least(scorer, power_first, seed)
        if self.weight == 1 or not leanest.size:
            return scorer.placement(leanest)
        fastest = least(scorer, _fastest_without_batteries, seed)
        mixed = self._mixed(scorer, fastest, leanest)
        return scorer.placement(least(scorer, mixed, seed, also=(fastest, leanest)))

    def _mixed(self, scorer: Scorer, fastest: Places, leanest: Places) -> Objective:
        ends = scorer.scores(np.stack([fastest, leanest]))

        def objective(scores: Scores) -> Sequence[Floats]:
            latency = _between(scores.latency_s, ends.latency_s[0], ends.latency_s[1])
            power = _between(scores.added_w, ends.added_w[1], ends.added_w[0])
            mix = (1 - self.weight) * latency + self.weight * power
            return (
                *(scores.excess, scores.battery_cores, mix),
                *(scores.link_price_per_h, scores.mean_latency_s, scores.crowding),
            )

        return objective


def power_first(scores: Scores) -> Sequence[Floats]:
    """Return the objective of weight 1."""
    return (
        *(scores.excess, scores.battery_cores, scores.added_w, scores.link_price_per_h),
        *(scores.latency_s, scores.mean_latency_s, scores.crowding),
    )


def _fastest_without_batteries(scores: Scores) -> Sequence[Floats]:
    return scores.excess, scores.battery_cores, *latency_first(scores)[1:], scores.added_w


def _between(values: Floats, least_value: float, most: float) -> Floats:
    """Return values as shares of the way from the least to the most, which may be the same."""
    return (values - least_value) / (most - least_value) if most > least_value else np.zeros_like(values)
