"""Find the placement with the least objective: the steps that all optimising policies share.

1. Jobs are placed in their order, each given its inputs' places, with a few partial placements in parallel.
2. Springs place all jobs at once; and jobs are packed by size, which finds room where there is little.
3. These, and copies in which chance moved half of the jobs, are improved by the best site for each job in
   turn.
4. The best few are improved by swaps and joint moves, and the best one by moving a job with all that
   depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.packing import packed
from towpath.placement.jobs.policy import NoFeasiblePlacement
from towpath.placement.jobs.scores import Objective, Places, Scorer
from towpath.placement.jobs.search import Search
from towpath.placement.jobs.spring import relaxed
from towpath.placement.jobs.view import Job, MeshView

AT_ONCE = 1000
"""Disturbed placements times sites: their number where sites are many is small, so that time is bounded."""

MOST_DISTURBED = 100

IMPROVED = 3
"""Placements that joint moves improve."""


def least(scorer: Scorer, objective: Objective, seed: int = 0, also: Sequence[Places] = ()) -> Places:
    """Return the placement with the least objective, whose first part must be `Scores.excess`.

    `also` are placements to improve, too. Raise `NoFeasiblePlacement` if none is found that fits.
    """
    if not scorer.options:
        return np.zeros(0, dtype=np.intp)
    _check_each(scorer)
    search = Search(scorer, objective)
    room, hardest, proven = packed(scorer)
    if room is None and proven:
        raise _full(scorer, hardest)
    starts = [*search.in_order(), relaxed(scorer, seed), *([] if room is None else [room]), *also]
    settled = search.ranked(search.settle(np.stack([*starts, *_disturbed(scorer, starts[0], seed)])))
    improved = np.stack([search.descend(start) for start in settled[:IMPROVED]])
    best = search.descend(search.relocate(search.best(improved)[0]))
    if search.key(best)[0] > 0:
        raise _short(scorer, best)
    return best


def _disturbed(scorer: Scorer, row: Places, seed: int) -> Places:
    """Return copies of a placement in which each job has moved anywhere with a chance of a half."""
    chance = np.random.default_rng(seed)
    count = min(MOST_DISTURBED, 1 + AT_ONCE // len(scorer.sites))
    anywhere = np.column_stack([chance.choice(options, count) for options in scorer.options])
    return np.where(chance.random(anywhere.shape) < 0.5, anywhere, row)


def _check_each(scorer: Scorer) -> None:
    """Raise an error for a job that fits nowhere, even alone."""
    for job, options in zip(scorer.view.order, scorer.options, strict=True):
        if not options.size:
            raise nowhere(scorer.view, job)


def nowhere(view: MeshView, job: Job) -> NoFeasiblePlacement:
    """Return the error for a job that no site can run, even alone."""
    allowed = [site for site in view.sites if job.may_run_at(site.name)]
    if not allowed:
        return NoFeasiblePlacement(job.name, "permission", "no site may run it", proven=True)
    cores = view.cores_of(job)
    if all(site.cores < cores for site in allowed):
        most = max(site.cores for site in allowed)
        detail = f"it needs {cores:g} cores, and no site that may run it has more than {most:g}"
        return NoFeasiblePlacement(job.name, "cores", detail, proven=True)
    enough = [site for site in allowed if site.cores >= cores]
    most = max(site.memory_mb for site in enough)
    detail = (
        f"it needs {job.memory_mb:g} MB, and no site that may run it and has the cores has more than {most:g}"
    )
    return NoFeasiblePlacement(job.name, "memory", detail, proven=True)


def _full(scorer: Scorer, hardest: int) -> NoFeasiblePlacement:
    """Return the error for jobs that fit alone, but not together."""
    job = scorer.view.order[hardest]
    cores, memory_mb = scorer.job_cores, scorer.job_mb
    room = np.array(
        [scorer.cores.sum() / (cores.sum() or 1), scorer.memory_mb.sum() / (memory_mb.sum() or 1)]
    )
    lacking = ("cores", "memory")[int(room.argmin())]
    need = f"{cores[hardest]:g} cores" if lacking == "cores" else f"{memory_mb[hardest]:g} MB"
    detail = f"it needs {need}, which no site that may run it has left in any way to place the larger jobs"
    return NoFeasiblePlacement(job.name, lacking, detail, proven=True)


def _short(scorer: Scorer, best: Places) -> NoFeasiblePlacement:
    """Return the error for a search without success, from what the best placement lacks."""
    shortage = evaluate(scorer.view, scorer.placement(best)).shortages[0]
    detail = f"with the best placement found, {shortage}"
    return NoFeasiblePlacement(shortage.jobs[-1], shortage.lacking, detail, proven=False)
