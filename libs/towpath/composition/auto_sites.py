"""Write sites in place of `auto`: where jobs run or were found a place, and where inputs are written."""

from __future__ import annotations

from collections.abc import Mapping

from towpath.composition.difference import spelled_out
from towpath.composition.running import RunningJob
from towpath.contracts.job import Input, JobSpec
from towpath.contracts.message import AUTO_SITE, SiteName
from towpath.contracts.pipeline import PipelineSpec


def with_sites(
    spec: PipelineSpec, mine: Mapping[str, RunningJob], found: Mapping[str, SiteName] | None = None
) -> PipelineSpec:
    """Return the pipeline with sites in place of `auto`, as far as they are known.

    A running job stays where it is. `found` are places for new jobs.
    """
    places = {**(found or {}), **{name: job.site for name, job in mine.items()}}
    jobs = [
        job.model_copy(update={"site": places.get(job.name, AUTO_SITE)}) if job.site == AUTO_SITE else job
        for job in spec.jobs
    ]
    written = [spelled_out(job, mine.get(job.name)) for job in jobs]
    read = [
        job.model_copy(update={"inputs": [_with_site(entry, written) for entry in job.inputs]})
        for job in jobs
    ]
    return spec.model_copy(update={"jobs": read})


def _with_site(entry: Input, jobs: list[JobSpec]) -> Input:
    """Return the input with the site where jobs write its topic, if they write it at one site."""
    if entry.site != AUTO_SITE:
        return entry
    sites = {job.output_site for job in jobs if entry.topic in (job.output.topic, job.output.rejected_topic)}
    return entry.model_copy(update={"site": sites.pop()}) if len(sites) == 1 else entry


def is_open(spec: PipelineSpec) -> bool:
    """Tell if a job of the pipeline has no site yet."""
    return any(job.site == AUTO_SITE for job in spec.jobs)
