"""Places for jobs of which some must be at the same site, and others must not."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from towpath.placement.jobs.policy import NoFeasiblePlacement, Policy
from towpath.placement.jobs.view import MeshView, Pair, Placement

Pairs = Sequence[Pair]
"""Pairs of jobs."""

MOST_TRIES = 30
"""Placements that are computed before the search ends. One of 50 jobs may take a second."""


def placed_beside(policy: Policy, view: MeshView, beside: Pairs, apart: Pairs) -> Placement:
    """Return the first placement found in which all pairs are as they must be.

    Where the policy wants a pair otherwise, sites are taken from its jobs, and it places again. Raise
    `NoFeasiblePlacement` if that leads nowhere.
    """
    found = policy.place(view)
    refused = _wrong(found, beside, apart)
    if not refused:
        return found
    open_views, tries = _narrower(view, found, beside, apart), 0
    while open_views and tries < MOST_TRIES:
        tries, view = tries + 1, open_views.pop(0)
        try:
            found = policy.place(view)
        except NoFeasiblePlacement:
            continue
        if not _wrong(found, beside, apart):
            return found
        open_views = _narrower(view, found, beside, apart) + open_views
    one, other = refused[0]
    detail = f"no places were found that keep all jobs beside and apart as described, {other!r} for one"
    raise NoFeasiblePlacement(one, "permission", detail, proven=not open_views)


def _wrong(found: Placement, beside: Pairs, apart: Pairs) -> list[Pair]:
    parted = [(a, b) for a, b in beside if found[a] != found[b]]
    return parted + [(a, b) for a, b in apart if found[a] == found[b]]


def _narrower(view: MeshView, found: Placement, beside: Pairs, apart: Pairs) -> list[MeshView]:
    """Return views with fewer sites, the best first: all wrong pairs put right, then each way for one."""
    wrong = _wrong(found, beside, apart)
    ways = [*_ways(view, found, wrong[0])]
    if len(wrong) == 1:
        return ways
    at_once = view
    for pair in wrong:
        at_once = next(_ways(at_once, found, pair), at_once)
    return [at_once, *ways]


def _ways(view: MeshView, found: Placement, pair: Pair) -> Iterator[MeshView]:
    """Yield views in which two jobs that are at the same site are apart, or others beside each other."""
    one, other = pair
    if found[one] != found[other]:
        sites = dict.fromkeys([found[one], found[other], *view.site])
        ways = [{one: {site}, other: {site}} for site in sites]
    else:
        here, elsewhere = {found[one]}, view.site.keys() - {found[one]}
        ways = [{a: here, b: elsewhere} for a, b in (pair, (other, one))] + [dict.fromkeys(pair, elsewhere)]
    for way in ways:
        if all(any(map(view.job[job].may_run_at, sites)) for job, sites in way.items()):
            yield _narrowed(view, way)


def _narrowed(view: MeshView, allowed: Mapping[str, Collection[str]]) -> MeshView:
    jobs = (
        replace(job, allowed=frozenset(filter(job.may_run_at, allowed[job.name])))
        if job.name in allowed
        else job
        for job in view.jobs
    )
    return replace(view, jobs=tuple(jobs))
