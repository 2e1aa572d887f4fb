"""Ask the collector for the places of new jobs whose site is `auto`, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from towpath.composition.adjustments import stationary
from towpath.composition.auto_sites import is_open, with_sites
from towpath.composition.running import RunningJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.message import AUTO_SITE
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec, PlannedChange, PolicyName
from towpath.contracts.placement import NewPlace, PlaceNewJobs
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry

PLACE_S = 10.0
"""Deadline of the collector, which asks sites and then computes. Clients wait 15 s for an accepted job."""


async def with_site(spec: JobSpec, jobs: Mapping[str, JobEntry], situation: Situation) -> tuple[JobSpec, str]:
    """Return a job with a site in place of `auto`, and why that one. Raises `TowpathError`."""
    if spec.site != AUTO_SITE:
        return spec, ""
    if spec.name in jobs:
        entry = jobs[spec.name]
        return stationary(spec, entry.spec, entry.site), ""
    asked = PipelineJob.model_validate(spec.model_dump())
    try:
        place = (await _places([asked], situation))[spec.name]
    except TowpathError as error:
        raise TowpathError.of(
            error.detail.model_copy(update={"field": "site", "value": AUTO_SITE})
        ) from error
    return spec.model_copy(update={"site": place.site}), _why(place)


async def pipeline_with_sites(
    spec: PipelineSpec, mine: Mapping[str, RunningJob], situation: Situation
) -> tuple[PipelineSpec, Mapping[str, str]]:
    """Return a pipeline with sites in place of `auto`, and for new jobs why. Raises `TowpathError`."""
    known = with_sites(spec, mine)
    if not is_open(known):
        return known, {}
    leaving = sorted(mine.keys() - {job.name for job in spec.jobs})
    try:
        places = await _places(known.jobs, situation, leaving, spec.policy)
    except TowpathError as error:
        names = [job.name for job in known.jobs if job.site == AUTO_SITE]
        meant = error.detail.value if error.detail.value in names else names[0]
        position = [job.name for job in spec.jobs].index(meant)
        update = {"field": f"jobs[{position}].site", "value": AUTO_SITE}
        raise TowpathError.of(error.detail.model_copy(update=update)) from error
    found = with_sites(known, mine, {name: place.site for name, place in places.items()})
    return found, {name: _why(place) for name, place in places.items()}


def with_reason(change: PlannedChange, reasons: Mapping[str, str]) -> PlannedChange:
    """Return the change of a job, with the reason for its place if that was found."""
    if change.actions != [Action.ADD] or change.job not in reasons:
        return change
    return change.model_copy(update={"reason": f"{change.reason}; {reasons[change.job]}"})


async def _places(
    jobs: Sequence[PipelineJob],
    situation: Situation,
    leaving: Sequence[str] = (),
    policy: PolicyName = PolicyName.PERFORMANCE,
) -> dict[str, NewPlace]:
    question = PlaceNewJobs(jobs=[*jobs], leaving=[*leaving], policy=policy)
    try:
        answer = await situation.bus.request(question, deadline_s=PLACE_S)
    except TowpathError as error:
        if error.detail.code not in (ErrorCode.DEADLINE, ErrorCode.UNREACHABLE):
            raise
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"the collector found no place within {PLACE_S:g} s",
            allowed=[*situation.sites.names],
        ) from error
    return {place.job: place for place in answer.places}


def _why(place: NewPlace) -> str:
    return f"auto is {place.site}: {place.reason}"
