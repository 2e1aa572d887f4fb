"""The least latency of the critical path, as PerfScheduler of RAINBOW D4.2.

Minimises, in this order: the latency of the slowest path from a source to an end; the mean latency over all
ends, because the slowest path leaves all others open; the price of what crosses links; and the utilisation
that a busy core meets on average at its site, which spreads jobs that are as fast elsewhere in proportion to
cores.

Steps (EQUALITY, Information Systems 105, 2022; see `optimising.py`): operator by operator given the inputs'
places, improvement rounds, spring relaxation, and the best of them. As a job runs whole, exact choice per
operator with local search replaces the relaxed linear program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from towpath.placement.jobs.optimising import least
from towpath.placement.jobs.scores import Floats, Scorer, Scores
from towpath.placement.jobs.view import MeshView, Placement


def latency_first(scores: Scores) -> Sequence[Floats]:
    """Return the objective of this policy."""
    return (
        *(scores.excess, scores.latency_s, scores.mean_latency_s),
        *(scores.link_price_per_h, scores.crowding),
    )


@dataclass(frozen=True)
class Performance:
    """Least latency."""

    name: ClassVar[str] = "performance"
    summary: ClassVar[str] = "least latency of the slowest path, then of all paths"

    def place(self, view: MeshView, seed: int = 0) -> Placement:
        """Return a site for each job. Raise `NoFeasiblePlacement` if none is found."""
        scorer = Scorer(view)
        return scorer.placement(least(scorer, latency_first, seed))
