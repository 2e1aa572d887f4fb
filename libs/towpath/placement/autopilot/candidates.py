"""Find placements that may be better than the current one, by asking a policy.

It is asked for the mesh as it is and as it will be, with all jobs free to move and with only those that will
break their goals, and once more without sites that fail. Beside its answers, late jobs are tried one by one
and together at each site. Jobs that nothing helps, because their stream is cut
off or their site is down, would make every placement impossible. So they are left out, and stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from towpath.placement.autopilot.outlook import Outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.jobs.policy import NoFeasiblePlacement, Policy
from towpath.placement.jobs.view import Job, MeshView, Placement, avoiding

UNSTABLE_FROM = 0.02
"""Share of time in which a site is expected to be down, from which no job is placed there."""


def candidates(situation: Situation, policy: Policy) -> Iterator[Placement]:
    """Yield placements that differ from the current one, each once. Jobs that may not leave stay."""
    current = situation.current
    able = {job for job in current if situation.may_leave(job)}
    late = {job for job, seconds in situation.staying.late_s.items() if seconds > 0} & able
    seen = [dict(current)]
    for wanted in (
        *_by_policy(situation, policy, able, late),
        *_moved(situation.ahead.phases[0].view, current, sorted(late)),
    ):
        if wanted not in seen:
            seen.append(wanted)
            yield wanted


def _by_policy(
    situation: Situation, policy: Policy, able: set[str], late: set[str]
) -> Iterator[dict[str, str]]:
    """Yield the placements of a policy, for every view that there is and will be."""
    current = situation.current
    for view in _views(situation.ahead, situation.rules):
        hopeless = _hopeless(view, current, able)
        for free in (able - hopeless, late - hopeless) if late != able else (able - hopeless,):
            if not free:
                continue
            try:
                found = policy.place(_pinned(view, current, free, hopeless))
            except NoFeasiblePlacement:
                continue
            yield {**current, **found}


def _moved(view: MeshView, current: Placement, late: list[str]) -> Iterator[dict[str, str]]:
    """Yield placements in which one late job moved, or all to the same site.

    Policies see rates, but no work that waits; and if not all jobs fit, they have no answer at all.
    """
    for site in view.sites:
        fitting = [job for job in late if site.cores and view.job[job].may_run_at(site.name)]
        for jobs in (*([job] for job in fitting), fitting):
            yield {**current, **dict.fromkeys(jobs, site.name)}


def _hopeless(view: MeshView, current: Placement, able: Collection[str]) -> set[str]:
    """Return the jobs that cannot do anything in a view, wherever they may be."""
    kept = {source.name: source.site for source in view.sources}
    kept |= {job.name: job.output_site for job in view.jobs if job.output_site}
    found: set[str] = set()
    for job in view.order:
        places = [site.name for site in view.sites if site.cores and job.may_run_at(site.name)]
        if job.name not in able:
            places = [place for place in places if place == current[job.name]]
        needed = [kept[name] for name in (*job.inputs, job.name) if name in kept]
        reachable = any(all(_joined(view, place, other) for other in needed) for place in places)
        if not reachable or found.intersection(job.inputs):
            found.add(job.name)
    return found


def _joined(view: MeshView, one: str, other: str) -> bool:
    return one == other or (one, other) in view.link


def _views(ahead: Outlook, rules: Rules) -> Iterator[MeshView]:
    """Yield the views for which places are looked for, once with all sites and once without those that fail.

    They are the present one, and of phases with the same sites and links the one with the most work.
    """
    busiest: dict[tuple[object, ...], MeshView] = {}
    for view in (phase.view for phase in ahead.phases):
        known = busiest.get(key := (view.sites, view.links))
        if known is None or _needed(view) > _needed(known):
            busiest[key] = view
    failing = _failing(ahead)
    present = ahead.phases[0].view
    for view in (present, *(view for view in busiest.values() if view is not present)):
        usable = _within(view, rules)
        yield usable
        if failing:
            yield avoiding(usable, failing)


def _needed(view: MeshView) -> float:
    return sum(map(view.cores_of, view.jobs))


def _failing(ahead: Outlook) -> set[str]:
    """Return the sites that do not run in some phase, lose their last link, or may fail."""
    now = _linked(ahead.phases[0].view)
    found: set[str] = set()
    for phase in ahead.phases:
        found |= now - _linked(phase.view)
        found |= {
            site.name for site in phase.view.sites if not site.cores or site.stability <= 1 - UNSTABLE_FROM
        }
    return found


def _linked(view: MeshView) -> set[str]:
    return {end for link in view.links for end in (link.origin, link.target)}


def _within(view: MeshView, rules: Rules) -> MeshView:
    """Return the view with the share of cores that jobs may use, and power at the price of its energy."""
    sites = (
        replace(
            site,
            cores=site.cores * rules.headroom,
            idle_w=site.idle_w * site.energy_price,
            active_w=site.active_w * site.energy_price,
        )
        for site in view.sites
    )
    return replace(view, sites=tuple(sites))


def _pinned(view: MeshView, current: Placement, free: Collection[str], left_out: Collection[str]) -> MeshView:
    """Return the view with only some jobs free, and without others, which keep their cores where they are."""
    used = dict.fromkeys(view.site, 0.0)
    for name in left_out:
        used[current[name]] += view.cores_of(view.job[name])
    sites = tuple(
        replace(site, cores=max(site.cores - used[site.name], 0.0)) if used[site.name] else site
        for site in view.sites
    )
    jobs = (job if job.name in free else _staying(job, current) for job in view.jobs)
    return replace(view, sites=sites, jobs=tuple(job for job in jobs if job.name not in left_out))


def _staying(job: Job, current: Placement) -> Job:
    return replace(job, pinned=current[job.name])
