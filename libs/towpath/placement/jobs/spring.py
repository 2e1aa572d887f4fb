"""Place jobs as masses between springs, in a space in which distance is latency.

Sites get coordinates by Vivaldi (Dabek et al., SIGCOMM 2004). Jobs are pulled by what they read from and
what reads from them, as strongly as events grow or shrink on the way (spring relaxation in EQUALITY,
Information Systems 105, 2022). Two slips of its public code are avoided: it feeds 1 / latency to Vivaldi,
so that far sites come out close, and it never sets forces back to zero between iterations.
"""

from __future__ import annotations

import numpy as np

from towpath.placement.jobs.evaluation import TOLERANCE
from towpath.placement.jobs.scores import Floats, Places, Scorer
from towpath.placement.jobs.view import MeshView

DIMENSIONS = 3
NEIGHBOURS = 10
ITERATIONS = 200
VIVALDI_STEP = 0.25
SPRING_STEP = 0.1
AT_REST = 0.01
"""Force at which jobs are at rest, in mean latencies. EQUALITY ends at 1, but of latencies up to 10."""


def relaxed(scorer: Scorer, seed: int = 0) -> Places:
    """Return a placement: each job at the nearest site with room, or at the nearest one if none has room."""
    chance = np.random.default_rng(seed)
    latencies = _latencies(scorer.view)
    sites = coordinates(latencies, chance)
    wanted = _at_rest(scorer.view, sites, chance)
    return _nearest_with_room(scorer, sites, wanted)


def coordinates(latencies: Floats, chance: np.random.Generator) -> Floats:
    """Return a point per site so that distances come near latencies, an infinite latency being none.

    All sites move at once, each by the mean force of its neighbours in that iteration.
    """
    count = len(latencies)
    points = chance.uniform(-1, 1, (count, DIMENSIONS))
    if count < 2:
        return points
    for _ in range(ITERATIONS):
        others = (np.arange(count)[:, None] + _offsets(count, chance)) % count
        wanted = np.take_along_axis(latencies, others, axis=1)
        apart = points[:, None, :] - points[others]
        distance = np.linalg.norm(apart, axis=2)
        error = np.where(np.isfinite(wanted), wanted - distance, 0.0)
        force = apart / np.maximum(distance, 1e-12)[..., None] * error[..., None]
        points = points + VIVALDI_STEP * force.mean(axis=1)
    return points


def _offsets(count: int, chance: np.random.Generator) -> Places:
    return chance.permutation(np.arange(1, count))[:NEIGHBOURS]


def _latencies(view: MeshView) -> Floats:
    """Return latencies between sites, both directions averaged, in units of their mean."""
    names = [site.name for site in view.sites]
    found = np.full((len(names), len(names)), np.inf)
    for row, origin in enumerate(names):
        found[row, row] = 0.0
        for column, target in enumerate(names):
            if (link := view.link.get((origin, target))) is not None:
                found[row, column] = link.latency_s
    both = (found + found.T) / 2
    known = both[np.isfinite(both) & ~np.eye(len(names), dtype=bool)]
    mean = known.mean() if known.size else 0.0
    return both / mean if mean > 0 else both


def _at_rest(view: MeshView, sites: Floats, chance: np.random.Generator) -> Floats:
    """Return the points at which jobs come to rest. Sources stay at their sites."""
    numbers = {site.name: number for number, site in enumerate(view.sites)}
    columns = {job.name: column for column, job in enumerate(view.order)}
    jobs = len(columns)
    pull = np.zeros((jobs, jobs))
    anchor = np.zeros((jobs, DIMENSIONS))
    total = np.zeros(jobs)
    for column, job in enumerate(view.order):
        for name in job.inputs:
            if name in columns:
                strength = view.job[name].factor
                pull[column, columns[name]] = pull[columns[name], column] = strength
                total[[column, columns[name]]] += strength
            else:
                anchor[column] += sites[numbers[view.source[name].site]]
                total[column] += 1
    points = chance.uniform(-1, 1, (jobs, DIMENSIONS))
    step = min(SPRING_STEP, 1 / max(total.max(initial=0.0), 1e-12))  # A longer step would overshoot.
    for _ in range(ITERATIONS):
        force = pull @ points + anchor - total[:, None] * points
        if np.linalg.norm(force) <= AT_REST:
            break
        points = points + step * force
    return points


def _nearest_with_room(scorer: Scorer, sites: Floats, wanted: Floats) -> Places:
    cores, memory_mb = scorer.cores.copy(), scorer.memory_mb.copy()
    row = np.zeros(len(wanted), dtype=np.intp)
    for job, options in enumerate(scorer.options):
        distance = np.linalg.norm(sites[options] - wanted[job], axis=1)
        nearest = options[np.argsort(distance, kind="stable")]
        room = (cores[nearest] + TOLERANCE >= scorer.job_cores[job]) & (
            memory_mb[nearest] + TOLERANCE >= scorer.job_mb[job]
        )
        row[job] = nearest[room.argmax()]
        cores[row[job]] -= scorer.job_cores[job]
        memory_mb[row[job]] -= scorer.job_mb[job]
    return row
