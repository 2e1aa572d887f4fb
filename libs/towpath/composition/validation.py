"""Find all errors of a pipeline before any of it is applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from towpath.composition.difference import difference, spelled_out
from towpath.composition.placement import placement_problems, resource_problems
from towpath.composition.running import RunningJob
from towpath.composition.wiring import wiring_problems
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.job import JobSpec
from towpath.contracts.message import AUTO_SITE, SiteName
from towpath.contracts.pipeline import Action, Demand, PipelineSpec, PlannedChange
from towpath.contracts.site import Capacity


@dataclass(frozen=True)
class SiteFacts:
    """Facts about a site that a pipeline's jobs depend on."""

    up: bool
    capacity: Capacity = field(default_factory=Capacity)


def problems(
    spec: PipelineSpec,
    *,
    sites: Mapping[SiteName, SiteFacts],
    mine: Mapping[str, RunningJob],
    others: Mapping[str, RunningJob],
    promised: Mapping[SiteName, Sequence[Demand]] | None = None,
    artefacts: Mapping[str, str] | None = None,
) -> list[ErrorDetail]:
    """Return all errors, each with its place in the description, for example `jobs[3].inputs[0].topic`.

    `mine` are the running jobs of this pipeline, `others` all other running jobs. `promised` is the room that
    jobs of other pipelines will take soon. `artefacts` is as for `difference`. A site that is down is an
    error only where something would change there.
    """
    jobs = [spelled_out(job, mine.get(job.name)) for job in spec.jobs]
    names = {job.name for job in jobs}
    around = [spelled_out(other.spec) for name, other in others.items() if name not in names]
    changes = difference(spec, mine, others, artefacts)
    return [
        *_names_taken(jobs, others),
        *_sites_unknown(spec, sites),
        *_sites_down(changes, jobs, mine, sites),
        *wiring_problems(jobs, around),
        *placement_problems(spec),
        *resource_problems(
            spec, {name: facts.capacity for name, facts in sites.items()}, others, promised or {}
        ),
    ]


def _names_taken(jobs: list[JobSpec], others: Mapping[str, RunningJob]) -> Iterator[ErrorDetail]:
    for position, job in enumerate(jobs):
        if job.name in others:
            owner = others[job.name].pipeline
            whose = f"a job of pipeline {owner}" if owner else "a job that was deployed by itself"
            yield ErrorDetail(
                code=ErrorCode.NAME_IN_USE,
                message=f"{whose} has this name",
                field=f"jobs[{position}].name",
                value=job.name,
                allowed="a name that no job outside this pipeline has",
            )


def _sites_unknown(spec: PipelineSpec, sites: Mapping[SiteName, SiteFacts]) -> Iterator[ErrorDetail]:
    for position, job in enumerate(spec.jobs):
        for path, site in _named_sites(job):
            if site not in sites:
                yield ErrorDetail(
                    code=ErrorCode.UNKNOWN_SITE,
                    message="no single site has this" if site == AUTO_SITE else "no such site",
                    field=f"jobs[{position}].{path}",
                    value=site,
                    allowed=sorted(sites),
                )


def _named_sites(job: JobSpec) -> Iterator[tuple[str, str]]:
    yield "site", job.site
    for position, wanted in enumerate(job.inputs):
        yield f"inputs[{position}].site", wanted.site
    if job.output.site is not None:
        yield "output.site", job.output.site
    if job.standby is not None:
        yield "standby.site", job.standby.site


def _sites_down(
    changes: list[PlannedChange],
    jobs: list[JobSpec],
    mine: Mapping[str, RunningJob],
    sites: Mapping[SiteName, SiteFacts],
) -> Iterator[ErrorDetail]:
    positions = {job.name: position for position, job in enumerate(jobs)}
    up = sorted(name for name, facts in sites.items() if facts.up)
    for change in changes:
        if change.actions == [Action.KEEP]:
            continue
        position = positions.get(change.job)
        for path, site, why in _needed(change, mine, None if position is None else jobs[position]):
            if site in sites and not sites[site].up:
                yield ErrorDetail(
                    code=ErrorCode.SITE_DOWN,
                    message=f"site {site}, {why}, is down",
                    field="jobs" if position is None else f"jobs[{position}].{path}",
                    value=site,
                    allowed=up,
                )


def _needed(
    change: PlannedChange, mine: Mapping[str, RunningJob], wanted: JobSpec | None
) -> Iterator[tuple[str, str, str]]:
    """Yield the sites that a change needs: path of the field, the site, the reason."""
    running = mine.get(change.job)
    if wanted is None:
        assert running is not None
        yield "", running.site, f"where {change.job} runs, which is to be removed"
        return
    yield "site", wanted.site, f"where {change.job} will run"
    if running is not None and running.site != wanted.site:
        yield "site", running.site, f"where {change.job} runs now"
    if wanted.output_site != wanted.site:
        yield "output.site", wanted.output_site, f"where the results of {change.job} go"
