"""Find places with room: first fit in decreasing size, with a bounded number of steps back."""

from __future__ import annotations

import numpy as np

from towpath.placement.jobs.evaluation import TOLERANCE
from towpath.placement.jobs.scores import Places, Scorer

MOST_STEPS = 20_000
"""Places that are tried before the search gives up: a tenth of a second."""


def packed(scorer: Scorer) -> tuple[Places | None, int, bool]:
    """Return places in which cores and memory suffice, the job that was hardest to place, and True if proven.

    Without places, the answer is proven if all combinations were ruled out within `MOST_STEPS`. The largest
    job comes first, at the site that it leaves the least room. Jobs are numbers in `MeshView.order`.
    """
    search = _Packing(scorer)
    found = search.place(0)
    hardest = search.order[min(search.deepest, len(search.order) - 1)]
    return (search.places if found else None), hardest, search.steps <= MOST_STEPS


class _Packing:
    def __init__(self, scorer: Scorer) -> None:
        self._options = scorer.options
        self._needs = np.column_stack([scorer.job_cores, scorer.job_mb])
        self._room = np.column_stack([scorer.cores, scorer.memory_mb])
        total = np.where(self._room.sum(axis=0) > 0, self._room.sum(axis=0), 1.0)
        size = (self._needs / total).max(axis=1)
        self._shares = 1 / total
        self.order = sorted(range(len(size)), key=lambda job: (-size[job], job))
        self.places = np.zeros(len(size), dtype=np.intp)
        self.steps = 0
        self.deepest = 0
        """The furthest job in `order` that was reached."""

    def place(self, depth: int) -> bool:
        """Place the jobs from `depth` on. True if all have a place."""
        self.deepest = max(self.deepest, depth)
        if depth == len(self.order):
            return True
        job = self.order[depth]
        sites = self._options[job]
        left = self._room[sites] - self._needs[job]
        fits = (left >= -TOLERANCE).all(axis=1)
        tightest = np.argsort((left * self._shares).sum(axis=1), kind="stable")
        for site in sites[tightest[fits[tightest]]]:
            self.steps += 1
            if self.steps > MOST_STEPS:
                return False
            self._room[site] -= self._needs[job]
            self.places[job] = site
            if self.place(depth + 1):
                return True
            self._room[site] += self._needs[job]
        return False
