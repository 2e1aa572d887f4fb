"""Check that a pipeline's jobs are where they may be, and that their sites have room for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from towpath.composition.running import RunningJob
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.message import SiteName
from towpath.contracts.pipeline import Demand, PipelineJob, PipelineSpec
from towpath.contracts.site import Capacity

_ROUNDING = 1e-9
"""Tolerance: ten tenths of a core add up to one core."""


def placement_problems(spec: PipelineSpec) -> list[ErrorDetail]:
    """Return an error for each job that is where its placement does not allow it."""
    where = {job.name: job.site for job in spec.jobs}
    return [
        error
        for position, job in enumerate(spec.jobs)
        for error in (
            *_misplaced(f"jobs[{position}].site", job),
            *_neighbours(f"jobs[{position}]", job, where),
        )
    ]


def _misplaced(field: str, job: PipelineJob) -> Iterator[ErrorDetail]:
    allowed, forbidden = job.placement.allowed, job.placement.forbidden
    if allowed is not None and job.site not in allowed:
        yield _refused(field, job, "its placement does not allow this site", sorted(allowed))
    if job.site in forbidden:
        others = f"any site but {', '.join(sorted(forbidden))}"
        yield _refused(field, job, "its placement forbids this site", others)


def _neighbours(place: str, job: PipelineJob, where: Mapping[str, SiteName]) -> Iterator[ErrorDetail]:
    for kind, names in (("beside", job.placement.beside), ("apart_from", job.placement.apart_from)):
        for number, name in enumerate(names):
            if name == job.name or name not in where:
                yield ErrorDetail(
                    code=ErrorCode.UNKNOWN_JOB,
                    message="this is the job itself" if name == job.name else "no such job in the pipeline",
                    field=f"{place}.placement.{kind}[{number}]",
                    value=name,
                    allowed=sorted(where.keys() - {job.name}),
                )
            elif kind == "beside" and where[name] != job.site:
                yield _refused(f"{place}.site", job, f"it is not at the site of {name}", [where[name]])
            elif kind == "apart_from" and where[name] == job.site:
                yield _refused(
                    f"{place}.site", job, f"it is at the same site as {name}", f"any site but {job.site}"
                )


def _refused(field: str, job: PipelineJob, message: str, allowed: str | list[str]) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.NOT_ALLOWED,
        message=f"{job.name}: {message}",
        field=field,
        value=job.site,
        allowed=allowed,
    )


def resource_problems(
    spec: PipelineSpec,
    capacities: Mapping[SiteName, Capacity],
    others: Mapping[str, RunningJob],
    promised: Mapping[SiteName, Sequence[Demand]],
) -> list[ErrorDetail]:
    """Return an error for the first job of each site, in the order of the description, that finds no room.

    `others` are the other running jobs. `promised` is room reserved for jobs that do not run yet.
    """
    return [
        error
        for site, capacity in sorted(capacities.items())
        for resource, has in (("cores", capacity.cores), ("memory_mb", capacity.memory_mb))
        if has is not None
        for error in _crowded(
            spec,
            site,
            resource,
            has,
            [*(o.resources for o in others.values() if o.site == site), *promised.get(site, ())],
        )
    ]


def _crowded(
    spec: PipelineSpec, site: SiteName, resource: str, has: float, taken: Iterable[Demand]
) -> Iterator[ErrorDetail]:
    outside = sum(getattr(demand, resource) for demand in taken)
    asked = outside
    for position, job in enumerate(spec.jobs):
        wants = getattr(job.resources, resource) if job.site == site else 0
        asked += wants
        if wants and asked > has + _ROUNDING:
            unit = "cores" if resource == "cores" else "MB of memory"
            yield ErrorDetail(
                code=ErrorCode.NOT_ALLOWED,
                message=f"with {job.name}, jobs ask {site} for {asked:g} {unit}, and it has {has:g}"
                + (f", and jobs outside the pipeline hold {outside:g}" if outside else ""),
                field=f"jobs[{position}].resources.{resource}",
                value=wants,
                allowed=f"at most {max(has - asked + wants, 0):g}",
            )
            return
