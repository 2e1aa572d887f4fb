"""The upcoming jobs of a pipeline, and the jobs elsewhere that would lose an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from towpath.composition.adjustments import complete
from towpath.contracts.errors import ErrorDetail
from towpath.contracts.pipeline import PipelineSpec
from towpath.coordinator.jobs.plans import changed_entry, new_entry
from towpath.coordinator.jobs.readers import unserved
from towpath.coordinator.registry.jobs import Registry
from towpath.coordinator.situation import Upcoming
from towpath.protocols.record import JobEntry


async def upcoming_jobs(
    spec: PipelineSpec,
    leaving: Iterable[str],
    jobs: Mapping[str, JobEntry],
    registry: Registry,
    artefacts: Mapping[str, str] | None = None,
) -> Upcoming:
    """Return all jobs of the pipeline as they will be, still at their present sites."""
    coming: dict[str, JobEntry] = {}
    for job in spec.jobs:
        own, before = job.job_spec(), jobs.get(job.name)
        if before is None:
            former = await registry.former(job.name)
            coming[job.name] = new_entry(complete(own), former, [], spec.name)
        else:
            changed = complete(own, before.spec).model_copy(update={"site": before.spec.site})
            # A job that an earlier coordinator was deploying will run as well.
            coming[job.name] = changed_entry(changed, before).model_copy(update={"running": True})
    return Upcoming(spec.name, coming, frozenset(leaving), artefacts or {})


async def unserved_elsewhere(
    spec: PipelineSpec, jobs: Mapping[str, JobEntry], registry: Registry
) -> list[ErrorDetail]:
    """Return errors for jobs outside a pipeline that would lose results, at the writer's description.

    `jobs` are all jobs. A name that belongs to another pipeline is an error of its own, and left out here.
    """
    elsewhere = {name for name, entry in jobs.items() if entry.pipeline != spec.name}
    if not elsewhere:
        return []
    own = spec.model_copy(update={"jobs": [job for job in spec.jobs if job.name not in elsewhere]})
    positions = {job.name: position for position, job in enumerate(spec.jobs)}
    leaving = jobs.keys() - elsewhere - {job.name for job in own.jobs}
    upcoming = await upcoming_jobs(own, leaving, jobs, registry)
    changing = frozenset(upcoming.coming) | upcoming.leaving
    return [
        each.error.model_copy(update={"field": f"jobs[{positions[each.writer]}].{each.error.field}"})
        if each.writer in positions
        else each.error.model_copy(
            update={"field": "jobs", "message": f"{each.writer} is missing here: {each.error.message}"}
        )
        for each in unserved(jobs, upcoming.of(jobs), changing)
    ]
