"""Latency, and the share of data that is checked, as PerfDQScheduler of RAINBOW D4.2.

Minimises F = latency / (1 + β · checked share), EQUALITY's objective (Information Systems 105, 2022), where
it is tried with β from 0.5 to 3. With β = 0 it is `performance`. Checks take what jobs leave: they need no
further site and move no data. Where the sources check at a source's device, here the jobs that read a
source check its data, because a source is no job; EQUALITY has that as a variant. Its qualOpt, which moves
other operators away from where checks run, is part of the local search: each move is judged by F.

A latency of 0 makes F 0 whatever is checked, so among equals more checked data wins, then as in
`performance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from towpath.placement.jobs.optimising import least
from towpath.placement.jobs.policies.performance import latency_first
from towpath.placement.jobs.scores import Floats, Scorer, Scores
from towpath.placement.jobs.view import MeshView, Placement


@dataclass(frozen=True)
class Quality:
    """Latency against checked data."""

    name: ClassVar[str] = "quality"
    summary: ClassVar[str] = "least latency / (1 + beta · share of checked data)"

    beta: float = 1.0

    def __post_init__(self) -> None:
        if not self.beta >= 0:
            raise ValueError(f"beta is {self.beta}; allowed: 0 and more")

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return a site for each job. Raise `NoFeasiblePlacement` if none is found."""
        scorer = Scorer(view)
        return scorer.placement(least(scorer, self.objective, seed))

    def objective(self, scores: Scores) -> Sequence[Floats]:
        """Return the objective of this policy."""
        f = scores.latency_s / (1 + self.beta * scores.checked_share)
        unchecked = -scores.checked_share if self.beta else np.zeros_like(scores.checked_share)
        return scores.excess, f, unchecked, *latency_first(scores)[2:]
