"""Find places for jobs that do not run yet, at sites that are not known to fail if these have room."""

from __future__ import annotations

import math
from collections.abc import Sequence

from towpath.composition.mesh_view import Picture
from towpath.composition.new_jobs import NewJobs, view_of_new
from towpath.contracts.commands import JobView
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import AUTO_SITE
from towpath.contracts.placement import NewPlace, NewPlaces, PlacementFigures, PlaceNewJobs
from towpath.placement.jobs.evaluation import evaluate
from towpath.placement.jobs.neighbours import placed_beside
from towpath.placement.jobs.policy import NoFeasiblePlacement, Policy
from towpath.placement.jobs.view import MeshView, Placement, avoiding


def new_places(command: PlaceNewJobs, seen: Picture, running: Sequence[JobView]) -> NewPlaces:
    """Return places by the policy that is asked for. Raises `TowpathError`."""
    try:
        new = view_of_new(seen, running, command.jobs, command.leaving)
        wanted = _wanted(new, command.policy)
    except NoFeasiblePlacement as error:
        raise no_room(error) from error
    except ValueError as error:
        raise TowpathError(ErrorCode.INVALID, str(error), field="jobs", allowed="no circle") from error
    auto = {job.name for job in command.jobs if job.site == AUTO_SITE}
    return NewPlaces(
        policy=command.policy,
        age_s=new.view.age_s,
        places=[_place(new.view, wanted, job.name) for job in new.view.jobs if job.name in auto],
        figures=figures_of(new.view, wanted),
    )


def _wanted(new: NewJobs, policy_name: str) -> Placement:
    # Here: policies need numpy, which takes 15 MB, and few meshes ask.
    from towpath.placement.autopilot.candidates import UNSTABLE_FROM
    from towpath.placement.jobs.policies.registry import policy

    chosen = policy(policy_name)
    unstable = {site.name for site in new.view.sites if site.stability <= 1 - UNSTABLE_FROM}
    try:
        return _placed(chosen, avoiding(new.view, unstable), new)
    except NoFeasiblePlacement:
        if not unstable:
            raise
    return _placed(chosen, new.view, new)


def _placed(policy: Policy, view: MeshView, new: NewJobs) -> Placement:
    """Return a feasible placement: `baseline` looks at no cores and no links."""
    found = placed_beside(policy, view, new.beside, new.apart)
    short = evaluate(view, found).shortages
    if short:
        raise NoFeasiblePlacement(short[0].jobs[-1], short[0].lacking, str(short[0]), proven=False)
    return found


def _place(view: MeshView, wanted: Placement, name: str) -> NewPlace:
    job, site, kept = view.job[name], wanted[name], view.kept_at(wanted)
    far_s = max((view.transfer_s(each, kept[each], site) for each in job.inputs), default=0.0)
    left = view.site[site].cores - sum(view.cores_of(each) for each in view.jobs if wanted[each.name] == site)
    reason = f"its inputs are {1000 * far_s:.3g} ms away, and {left:.3g} cores are left there"
    return NewPlace(job=name, site=site, cores=view.cores_of(job), reason=reason)


def figures_of(view: MeshView, placement: Placement) -> PlacementFigures:
    """Return the figures of a placement."""
    found = evaluate(view, placement)
    return PlacementFigures(
        latency_s=finite(found.latency_s),
        power_w=found.power_w,
        link_price_per_h=found.link_price_per_h,
        checked_share=found.checked_share,
        bytes_per_s=sum(found.link_bytes_per_s.values()),
        shortages=[str(each) for each in found.shortages],
    )


def finite(number: float) -> float | None:
    """Return a number as JSON can hold it: None if it is infinite."""
    return number if math.isfinite(number) else None


def no_room(error: NoFeasiblePlacement) -> TowpathError:
    """Return the refusal of jobs for which there is no place."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        str(error),
        field="jobs",
        value=error.job,
        allowed="jobs that need less, or sites that have more",
    )
