"""Meshes and jobs as EQUALITY generates them, the best of all placements, and that of R-Storm.

Graphs (Information Systems 105, 2022): sequential, diamond, replicated and random ones of medium size; needs
and capacities U(1, 10), memory U{100 … 1000}, costs of links U(0.1, 10), sizes U(0.5, 2), availability 85 %.
There a device is one of five per operator, and operators are split; here jobs are whole, so needs are
scaled until all jobs together need a given share of all sites.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.scores import Scorer
from towpath.placement.jobs.search import Key, Search
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

SHAPES = ("sequential", "diamond", "replicated", "medium")
AVAILABILITY = 0.85
BATCH_S = 1000.0
"""So long that bandwidths limit batches only: a batch of size s takes s times the cost of the link."""

DECIDES = {"performance": 1, "quality": 1, "energy": 2}
"""The part of a policy's key that it is about, where no site is on battery."""

Inputs = dict[str, tuple[str, ...]]


def generated(shape: str, jobs: int, sites: int, load: float, seed: int, checked: bool = False) -> MeshView:
    """Return a mesh and jobs that need the share `load` of all cores, and of all memory."""
    chance = np.random.default_rng([seed, SHAPES.index(shape), jobs, sites])
    inputs = inputs_of(shape, jobs, chance)
    names = [f"site{number}" for number in range(sites)]
    cores = chance.uniform(1, 10, sites)
    memory_mb = chance.integers(100, 1001, sites)
    needs = _scaled(chance.uniform(1, 10, jobs), load * cores.sum())
    needs_mb = _scaled(chance.integers(100, 1001, jobs), load * memory_mb.sum())
    sizes = dict(zip(inputs, chance.uniform(0.5, 2, jobs), strict=True))
    costs = [(a, b, chance.uniform(0.1, 10)) for a, b in itertools.combinations(names, 2)]
    sources = sorted({name for reads in inputs.values() for name in reads if name.startswith("source")})
    rates = dict.fromkeys(sources, 1.0)
    placed: list[Job] = []
    for number, (name, reads) in enumerate(inputs.items()):
        rates[name] = sum(rates[one] for one in reads)
        allowed = frozenset(site for site in names if chance.random() < AVAILABILITY)
        placed.append(
            Job(
                name,
                reads,
                cpu_s_per_event=needs[number] / rates[name],
                memory_mb=needs_mb[number],
                bytes_per_event=sizes[name] / rates[name] / BATCH_S,
                check_cpu_s_per_event=chance.uniform(0.5, 5) if checked else None,
                allowed=allowed or frozenset(names),
            )
        )
    origins = {name: str(chance.choice(names)) for name in sources}
    active_w = chance.uniform(8, 200, sites)
    idle_w = active_w * chance.uniform(0.3, 0.6, sites)
    return MeshView(
        sites=tuple(map(Site, names, *(part.tolist() for part in (cores, memory_mb, idle_w, active_w)))),
        links=tuple(Link(a, b, 0.0, 1 / cost) for a, b, cost in costs),
        sources=tuple(Source(name, origins[name], 1.0, 1 / BATCH_S) for name in sources),
        jobs=tuple(placed),
        batch_s=BATCH_S,
        hop_penalty_s=sum(cost for _, _, cost in costs) / len(costs) / 10,
    )


def inputs_of(shape: str, jobs: int, chance: np.random.Generator) -> Inputs:
    """Return job → inputs, in the order of jobs."""
    names = [f"job{number}" for number in range(jobs)]
    match shape:
        case "sequential":
            return dict(zip(names, [("source0",), *((name,) for name in names)], strict=False))
        case "diamond":
            middle = {name: (names[0],) for name in names[1:-1]}
            return {names[0]: ("source0",), **middle, names[-1]: tuple(middle)}
        case "replicated":
            first = 2 * jobs // 3
            begin = {name: (f"source{number % 2}",) for number, name in enumerate(names[:first])}
            return {**begin, **{name: tuple(begin) for name in names[first:]}}
    sources = [f"source{number}" for number in range(int(chance.integers(1, 5)))]
    inputs: Inputs = {name: (source,) for name, source in zip(names, sources, strict=False)}
    for number in range(len(inputs), jobs):
        earlier = [*sources, *names[:number]] if chance.random() < 0.2 else names[:number]
        count = min(len(earlier), int(chance.integers(1, 3)))
        inputs[names[number]] = tuple(sorted(chance.choice(earlier, count, replace=False).tolist()))
    return inputs


def exhaustive(search: Search, scorer: Scorer) -> Key | None:
    """Return the key of the best of all placements; None if none is feasible."""
    if not all(len(options) for options in scorer.options):
        return None
    every = np.stack(np.meshgrid(*scorer.options, indexing="ij"), axis=-1).reshape(-1, len(scorer.options))
    _, key = search.best(every)
    return None if key[0] > 0 else key


def longest_path_s(view: MeshView, placement: Placement) -> float:
    """Return the latency of the slowest path by walking each one."""
    return max(map(sum, _paths(view, placement)), default=0.0)


def _paths(view: MeshView, placement: Placement) -> Iterator[list[float]]:
    read = {name for job in view.jobs for name in job.inputs}

    def output_of(name: str) -> str:
        if name in view.source:
            return view.source[name].site
        return view.job[name].output_site or placement[name]

    def back(name: str) -> Iterator[list[float]]:
        if name in view.source:
            yield []
            return
        delivery = view.transfer_s(name, placement[name], output_of(name))
        for one in view.job[name].inputs:
            step = view.transfer_s(one, output_of(one), placement[name])
            yield from ([*path, step, delivery] for path in back(one))

    for job in view.jobs:
        if job.name not in read:
            yield from back(job.name)


def r_storm(view: MeshView) -> Placement | None:
    """Return R-Storm's placement (Peng et al., Middleware 2015) of whole jobs; None without room.

    Jobs in breadth-first order. Each goes to the site at the least distance in three dimensions: cores
    left, memory left, and latency from the reference site, the first one being that with most of both.
    Cores are a hard limit here; R-Storm lets them be exceeded.
    """
    most = [max(site.cores for site in view.sites), max(site.memory_mb for site in view.sites)]
    left = {site.name: np.array([site.cores, site.memory_mb]) / most for site in view.sites}
    reference = max(left, key=lambda name: left[name].sum())
    costs = [link.transfer_s(1.0) for link in view.links]
    farthest = max(costs, default=1.0) or 1.0
    placement: dict[str, str] = {}
    for job in breadth_first(view):
        need = np.array([view.cores_of(job), job.memory_mb]) / most
        fits = [name for name in left if job.may_run_at(name) and (left[name] >= need - 1e-9).all()]
        if not fits:
            return None

        def distance(name: str, need: np.ndarray = need) -> float:
            link = view.link.get((reference, name))
            latency = 0.0 if name == reference else math.inf if link is None else link.transfer_s(1.0)
            return float(((left[name] - need) ** 2).sum() + (latency / farthest) ** 2)

        site = min(fits, key=distance)
        placement[job.name] = site
        left[site] = left[site] - need
    return placement


def breadth_first(view: MeshView) -> Sequence[Job]:
    """Return jobs in the order of their distance from sources."""
    depth = {source.name: 0 for source in view.sources}
    for job in view.order:
        depth[job.name] = 1 + max((depth[name] for name in job.inputs), default=0)
    return sorted(view.order, key=lambda job: depth[job.name])


def feasible_latency_s(view: MeshView, placement: Placement | None) -> float | None:
    """Return the latency of a placement; None if it is not feasible."""
    if placement is None:
        return None
    found = evaluate(view, placement)
    return found.latency_s if found.feasible else None


def _scaled(values: np.ndarray, total: float) -> list[float]:
    return (values * (total / values.sum())).tolist()
