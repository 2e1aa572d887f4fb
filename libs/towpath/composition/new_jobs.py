"""Make the picture of jobs that do not run yet, in what the running ones leave. Pure functions.

Running jobs stay. So their results are sources here, and sites and links lack what they take. A new job has
no measurements: it makes one event of each, and the streams that it reads tell its rate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.composition.adjustments import complete
from towpath.composition.graph import Place, Stream, writers
from towpath.composition.mesh_view import EVENT_BYTES, LEAST_RATE, Picture, event_bytes, source_of
from towpath.contracts.commands import JobView
from towpath.contracts.data_plane import device_stream, device_subject
from towpath.contracts.job import Input, JobSpec
from towpath.contracts.message import AUTO_SITE
from towpath.contracts.pipeline import PipelineJob
from towpath.placement.jobs.evaluation import link_bytes
from towpath.placement.jobs.neighbours import Pairs
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

NEW_CORES = 0.25
"""Cores of a new job that does not say what it needs: four of them fill a core."""

LEAST_BYTES_PER_S = 1.0
"""Bandwidth of a link that is full: the refusal then names the link."""


@dataclass(frozen=True)
class NewJobs:
    """The new jobs, and which of them are bound to each other."""

    view: MeshView
    """Sites and links as running jobs leave them. A job with a named site is allowed there alone."""
    beside: Pairs
    apart: Pairs


def view_of_new(
    seen: Picture, running: Sequence[JobView], asked: Sequence[PipelineJob], leaving: Sequence[str] = ()
) -> NewJobs:
    """Return the picture of those `asked` jobs that are not among the `running` ones.

    Raises `ValueError` when jobs wait for each other.
    """
    sites = {site.name for site in seen.view.sites}
    at = {job.spec.name: job.site for job in running}
    at |= {job.name: job.site for job in asked if job.name in at and job.site in sites}
    new = [job for job in asked if job.name not in at and job.site in {AUTO_SITE, *sites}]
    described = {job.name: job for job in asked}
    specs = [complete(described.get(job.spec.name, job.spec), job.spec) for job in running]
    streams = _Streams(seen, writers([*specs, *new]), {job.name for job in new})
    inputs = {job.name: streams.read_by(job) for job in new}
    read = {name: source for each in inputs.values() for name, source in each.items() if source is not None}
    beside, apart = _bound(asked, "beside"), _bound(asked, "apart_from")
    left = _left(seen.view, at, {name for name in at if name not in leaving})
    view = replace(
        left,
        sources=tuple(read.values()),
        jobs=tuple(
            _job(job, [*inputs[job.name]], _allowed(job, sites, at, beside, apart), sites) for job in new
        ),
    )
    names = view.job.keys()
    pairs = [[pair for pair in each if names >= {*pair}] for each in (beside, apart)]
    return NewJobs(view, *pairs)


class _Streams:
    """The streams behind the topics that new jobs read."""

    def __init__(self, seen: Picture, written: Mapping[Place, set[Stream]], new: set[str]) -> None:
        self._seen = seen
        self._written = written
        self._new = new

    def read_by(self, job: JobSpec) -> dict[str, Source | None]:
        """Return what a job reads: new jobs, which are no sources, and sources."""
        found = dict(each for entry in job.inputs for each in self._behind(entry))
        return {name: source for name, source in found.items() if name != job.name}

    def _behind(self, entry: Input) -> Iterator[tuple[str, Source | None]]:
        view = self._seen.view
        if entry.from_device and entry.site in view.site:
            source = self._of_devices(entry)
            yield source.name, source
        for place, streams in self._written.items():
            if place.topic != entry.topic or entry.site not in (AUTO_SITE, place.site):
                continue
            for name in sorted(stream.job for stream in streams):
                if name in self._new:
                    yield name, None
                elif place.site in view.site and name in view.job:
                    rate = max(view.rates_out[name], LEAST_RATE)
                    yield name, Source(name, place.site, rate, view.job[name].bytes_per_event)

    def _of_devices(self, entry: Input) -> Source:
        """Return the events on a device topic: as others read them, else all that come at the site."""
        stream, subject = device_stream(entry.topic), device_subject(entry.topic)
        name = source_of((entry.site, stream, subject))
        if name in self._seen.view.source:
            return self._seen.view.source[name]
        measured = self._seen.measured
        rate = measured.newest(entry.site, f"stream:{stream}", "stream.event_rate") or 0.0
        return Source(name, entry.site, max(rate, LEAST_RATE), event_bytes(entry.site, stream, measured))


def _left(view: MeshView, at: Placement, staying: set[str]) -> MeshView:
    """Return the sites and links as far as running jobs leave them, without jobs."""
    places = {job.name: at[job.name] for job in view.jobs}
    cores: defaultdict[str, float] = defaultdict(float)
    memory_mb: defaultdict[str, float] = defaultdict(float)
    for job in (job for job in view.jobs if job.name in staying):
        cores[at[job.name]] += view.cores_of(job)
        memory_mb[at[job.name]] += job.memory_mb
    sent = link_bytes(view, places)

    def free(site: Site) -> Site:
        left, left_mb = site.cores - cores[site.name], site.memory_mb - memory_mb[site.name]
        return replace(site, cores=max(left, 0.0), memory_mb=max(left_mb, 0.0))

    def one_way(origin: str, target: str, link: Link) -> Link:
        left = max(link.bytes_per_s - sent.get((origin, target), 0.0), LEAST_BYTES_PER_S)
        return replace(link, origin=origin, target=target, bytes_per_s=left)

    links = tuple(one_way(*pair, link) for pair, link in view.link.items())
    return replace(view, sites=tuple(map(free, view.sites)), links=links, sources=(), jobs=())


def _bound(asked: Sequence[PipelineJob], kind: str) -> Pairs:
    return sorted(
        {(min(job.name, b), max(job.name, b)) for job in asked for b in getattr(job.placement, kind)}
    )


def _allowed(job: PipelineJob, sites: set[str], at: Placement, beside: Pairs, apart: Pairs) -> set[str]:
    """Return the sites at which a new job may be, beside or apart from jobs that are somewhere already."""
    if job.site != AUTO_SITE:
        return {job.site}
    allowed = sites & {*(sites if job.placement.allowed is None else job.placement.allowed)}
    allowed -= {*job.placement.forbidden}
    for one, other in ((a, b) for pair in beside for a, b in (pair, pair[::-1])):
        if one == job.name and other in at:
            allowed &= {at[other]}
    for one, other in ((a, b) for pair in apart for a, b in (pair, pair[::-1])):
        if one == job.name and other in at:
            allowed -= {at[other]}
    return allowed


def _job(job: PipelineJob, inputs: Sequence[str], allowed: set[str], sites: set[str]) -> Job:
    return Job(
        name=job.name,
        inputs=tuple(inputs),
        cpu_s_per_event=0.0,
        memory_mb=job.resources.memory_mb,
        bytes_per_event=EVENT_BYTES,
        allowed=frozenset(allowed),
        output_site=job.output.site if job.output.site in sites else None,
        fixed_cores=job.resources.cores or NEW_CORES,
    )
