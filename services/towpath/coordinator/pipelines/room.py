"""The room that jobs take at their sites: running jobs, and jobs that an apply under way will start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from towpath.composition.placement import resource_problems
from towpath.composition.running import RunningJob
from towpath.contracts.errors import ErrorDetail
from towpath.contracts.message import SiteName
from towpath.contracts.pipeline import ApplyState, Demand, PipelineSpec
from towpath.coordinator.jobs.topics import described_now, reads_of
from towpath.coordinator.pipelines.records import ApplyRecord
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.situation import Situation
from towpath.protocols.record import JobEntry


def running_jobs(jobs: Mapping[str, JobEntry], applies: Iterable[ApplyRecord]) -> dict[str, RunningJob]:
    """Return all jobs, each with its needs from the newest apply of its pipeline.

    Their inputs name the sites at which outputs are now."""
    demands = {job.name: job.resources for record in applies for job in record.spec.jobs}
    return {
        name: RunningJob(
            entry.spec,
            entry.site,
            entry.pipeline,
            demands.get(name, Demand()),
            entry.artefact,
            reads_of(entry, jobs),
        )
        for name, entry in described_now(jobs).items()
    }


def promised(
    jobs: Mapping[str, JobEntry], applies: Iterable[ApplyRecord], pipeline: str
) -> dict[SiteName, list[Demand]]:
    """Return, for each site, the needs of other pipelines' jobs that are on their way there."""
    coming: dict[SiteName, list[Demand]] = {}
    for record in applies:
        if record.pipeline == pipeline or record.state is not ApplyState.RUNNING:
            continue
        for job in record.spec.jobs:
            if job.name not in jobs or jobs[job.name].site != job.site:
                coming.setdefault(job.site, []).append(job.resources)
    return coming


async def room_problems(spec: PipelineSpec, situation: Situation, store: PipelineStore) -> list[ErrorDetail]:
    """Return errors for jobs of a pipeline that find no room at their sites at this moment."""
    capacities = {site: situation.sites.capacity(site) for site in situation.sites.names}
    applies = [await store.record(pipeline.apply) for pipeline in (await store.pipelines()).values()]
    jobs = await situation.registry.jobs()
    running = running_jobs(jobs, applies)
    others = {name: job for name, job in running.items() if job.pipeline != spec.name}
    return resource_problems(spec, capacities, others, promised(jobs, applies, spec.name))
