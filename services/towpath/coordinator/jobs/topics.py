"""Topics and their writers: turn the inputs of a spec into streams, and check that they fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

from towpath.bus import Bus
from towpath.composition.graph import Stream
from towpath.composition.schemas import check_fields
from towpath.contracts.data_plane import (
    device_stream,
    device_subject,
    output_stream,
    rejected_stream,
    subject_of,
    turn_of,
    uplink_prefix,
    uplink_stream,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Input, JobSpec, ResolvedInput, ResolvedOutput
from towpath.contracts.pipeline import PipelineSpec
from towpath.contracts.uplink import ResolvedUplink
from towpath.protocols.record import JobEntry
from towpath.streams.pages import last_serial

STREAM_INFO_S = 3.0

JobT = TypeVar("JobT", bound=JobSpec)


def resolve_output(spec: JobSpec, former: ResolvedOutput | None = None) -> ResolvedOutput:
    """Return the output stream of a job.

    It stays at its site when the job moves. A topic or site other than the `former` one is another stream."""
    resolved = ResolvedOutput(
        site=spec.output_site,
        stream=output_stream(spec.name),
        topic=spec.output.topic,
        rejected_topic=spec.output.rejected_topic,
    )
    if former is None:
        return resolved
    if former == resolved.model_copy(update={"stream": former.stream, "first_site": former.first_site}):
        return former
    return resolved.model_copy(update={"stream": output_stream(spec.name, turn_of(former.stream) + 1)})


def writers(jobs: Mapping[str, JobEntry], site: str, topic: str) -> list[str]:
    """Return the jobs whose results go to the topic."""
    return [n for n, e in jobs.items() if e.output.topic == topic and site in _output_sites(e)]


def rejecters(jobs: Mapping[str, JobEntry], site: str, topic: str) -> list[str]:
    """Return the jobs whose rejected events go to the topic."""
    return [n for n, e in jobs.items() if e.output.rejected_topic == topic and site in _output_sites(e)]


def _output_sites(entry: JobEntry) -> set[str]:
    """Return the site of a job's output, and those that it has outlived: its readers may still name them."""
    output = entry.output
    before = {
        one.site for one in entry.closed if (one.home_site, one.stream) == (output.home_site, output.stream)
    }
    return {output.site, output.home_site} | before


class TopicWriter(NamedTuple):
    """A stream behind a topic."""

    job: str
    """The job that writes it."""
    output: ResolvedOutput
    is_rejected: bool
    """True if it has the events that the job rejects, not its results."""

    @property
    def stream(self) -> str:
        """Its name."""
        return rejected_stream(self.output.stream) if self.is_rejected else self.output.stream

    @property
    def place(self) -> tuple[str, str]:
        """Site and stream by which its readers know it."""
        return self.output.home_site, self.stream


def sources(jobs: Mapping[str, JobEntry], site: str, topic: str) -> list[TopicWriter]:
    """Return all streams behind the topic."""
    return [
        *(TopicWriter(name, jobs[name].output, False) for name in writers(jobs, site, topic)),
        *(TopicWriter(name, jobs[name].output, True) for name in rejecters(jobs, site, topic)),
    ]


def readers(jobs: Mapping[str, JobEntry], job: str) -> list[str]:
    """Return the jobs that read results or rejected events of `job`, present or former."""
    streams = {name for stream in jobs[job].output_streams for name in (stream, rejected_stream(stream))}
    return [n for n, e in jobs.items() if n != job and any(i.stream in streams for i in e.inputs)]


def is_read(output: ResolvedOutput, jobs: Mapping[str, JobEntry]) -> bool:
    """Tell if a job reads the results or the rejected events in an output."""
    streams = output.stream, rejected_stream(output.stream)
    return any(i.site == output.home_site and i.stream in streams for e in jobs.values() for i in e.inputs)


def written(jobs: Mapping[str, JobEntry]) -> set[tuple[str, str]]:
    """Return site and name of every stream that a job writes."""
    return {
        (entry.output.home_site, stream)
        for entry in jobs.values()
        for stream in (entry.output.stream, rejected_stream(entry.output.stream))
    }


def reads_of(entry: JobEntry, jobs: Mapping[str, JobEntry]) -> frozenset[Stream]:
    """Return the streams of other jobs that a job reads. A stream that its writer has left does not count."""
    writers_now: dict[tuple[str, str], Stream] = {}
    for name, writer in jobs.items():
        site, stream = writer.output.home_site, writer.output.stream
        writers_now[site, stream] = Stream(name, "results")
        writers_now[site, rejected_stream(stream)] = Stream(name, "rejected")
    read = (writers_now.get((i.site, i.stream)) for i in entry.inputs)
    return frozenset(stream for stream in read if stream is not None)


def known_topics(jobs: Mapping[str, JobEntry]) -> list[str]:
    """Return all topics of jobs as `site/topic`."""
    topics = {
        f"{e.output.site}/{t}" for e in jobs.values() for t in (e.output.topic, e.output.rejected_topic)
    }
    return [*sorted(topics), "<site>/site/…"]


def resolve_inputs(
    spec: JobSpec, jobs: Mapping[str, JobEntry], uplinks: Iterable[ResolvedUplink] = ()
) -> list[ResolvedInput]:
    """Return the streams of a job's inputs. `start` numbers are applied, "latest" is left open.

    Raises `TowpathError` for an unknown topic, a writer that is still being deployed, a job that would read
    itself, or fields that do not fit.
    """
    resolved: list[ResolvedInput] = []
    for position, wanted in enumerate(spec.inputs):
        resolved += _forwarded(wanted, uplinks) or _resolve(spec, wanted, f"inputs.{position}.topic", jobs)
    check_fields(_at_current_sites(spec, _moved(jobs)), described_now(jobs))
    return resolved


def _forwarded(wanted: Input, uplinks: Iterable[ResolvedUplink]) -> list[ResolvedInput]:
    """Return the stream of the uplink that publishes a topic, if one does."""
    for each in (uplink.spec for uplink in uplinks):
        if each.to == wanted.site and wanted.topic in each.topics:
            subject = uplink_prefix(each.to, each.site, each.name) + subject_of(wanted.topic)
            stream = uplink_stream(each.name)
            return [_input(wanted, wanted.name, (wanted.site, stream), subject, bare=each.from_device)]
    return []


def _resolve(spec: JobSpec, wanted: Input, field: str, jobs: Mapping[str, JobEntry]) -> list[ResolvedInput]:
    if wanted.from_device:
        stream, subject = device_stream(wanted.topic), device_subject(wanted.topic)
        return [_input(wanted, wanted.name, (wanted.site, stream), subject, bare=True)]
    output = resolve_output(spec)
    if wanted.site == output.site and wanted.topic in (output.topic, output.rejected_topic):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the job would read what it writes",
            field=field,
            value=wanted.topic,
            allowed="a topic of another job or of devices",
        )
    found = [source for source in sources(jobs, wanted.site, wanted.topic) if source.job != spec.name]
    if not found:
        raise TowpathError(
            ErrorCode.UNKNOWN_TOPIC,
            f"no job writes to this topic at {wanted.site}",
            field=field,
            value=wanted.topic,
            allowed=known_topics(jobs),
        )
    waiting = [source.job for source in found if not jobs[source.job].running]
    if waiting:
        raise TowpathError(
            ErrorCode.BUSY, f"job {waiting[0]}, which writes this topic, is still being deployed", field=field
        )
    several = len(found) > 1
    return [
        _input(
            wanted,
            f"{wanted.name}#{source.job}" if several else wanted.name,
            source.place,
            None,
            bare=source.is_rejected,
            current_site=source.output.site if source.output.first_site else None,
        )
        for source in found
    ]


def _input(
    wanted: Input,
    name: str,
    place: tuple[str, str],
    subject: str | None,
    *,
    bare: bool,
    current_site: str | None = None,
) -> ResolvedInput:
    site, stream = place
    return ResolvedInput(
        name=name,
        site=site,
        stream=stream,
        subject=subject,
        from_device=bare,
        current_site=current_site,
        after_serial=wanted.start if isinstance(wanted.start, int) else None,
        identity=wanted.identity,
        repeats_within=wanted.repeats_within if wanted.identity else 0,
        on_loss=wanted.on_loss,
        format=wanted.format,
        sample=wanted.sample,
        thinning=wanted.thinning,
    )


async def pin_latest(bus: Bus, spec: JobSpec, inputs: list[ResolvedInput]) -> list[ResolvedInput]:
    """Replace "latest" by its present serial number, so that it means the same after a crash.

    Raises `TowpathError` when the stream's site does not answer.
    """
    latest = {wanted.name for wanted in spec.inputs if wanted.start == "latest"}
    pinned: list[ResolvedInput] = []
    for found in inputs:
        if found.name.split("#")[0] in latest:
            serial = await _newest_serial(bus, found.origin, found.stream)
            found = found.model_copy(update={"after_serial": serial})
        pinned.append(found)
    return pinned


async def _newest_serial(bus: Bus, site: str, stream: str) -> int:
    """Return the newest serial number of a stream; 0 when the stream does not exist yet.

    Raises `TowpathError` (site down) when its site does not answer.
    """
    try:
        return await last_serial(bus.connection, site, stream, timeout_s=STREAM_INFO_S)
    except TimeoutError as error:
        raise TowpathError(
            ErrorCode.SITE_DOWN, f"stream {stream} of {site} does not answer", field="inputs", value=site
        ) from error


def with_current_sites(entry: JobEntry, jobs: Mapping[str, JobEntry]) -> JobEntry:
    """Return a job that reads outputs where they are now, if some of them have outlived their sites."""
    now_at: dict[tuple[str, str], str] = {}
    for writer in jobs.values():
        for output in (*writer.closed, writer.output):
            for stream in (output.stream, rejected_stream(output.stream)):
                now_at[output.home_site, stream] = output.site
    inputs = [_now_at(now_at.get((i.site, i.stream), i.origin), i) for i in entry.inputs]
    return entry if inputs == entry.inputs else entry.model_copy(update={"inputs": inputs})


def _now_at(site: str, read: ResolvedInput) -> ResolvedInput:
    return read.model_copy(update={"current_site": None if site == read.site else site})


def pipeline_with_current_sites(spec: PipelineSpec, jobs: Mapping[str, JobEntry]) -> PipelineSpec:
    """Return a pipeline whose inputs name the sites at which outputs are that have outlived others.

    An output that the pipeline sends to a site by name is left alone.
    """
    moved = _moved(jobs, {job.name: job.output.site for job in spec.jobs})
    changed = [_at_current_sites(job, moved) for job in spec.jobs]
    return spec.model_copy(update={"jobs": changed}) if changed != spec.jobs else spec


def described_now(jobs: Mapping[str, JobEntry]) -> Mapping[str, JobEntry]:
    """Return jobs with descriptions whose inputs name the sites at which outputs are now.

    A failover leaves the descriptions of readers as they are.
    """
    moved = _moved(jobs)
    if not moved:
        return jobs
    return {
        name: entry.model_copy(update={"spec": _at_current_sites(entry.spec, moved)})
        for name, entry in jobs.items()
    }


def _moved(
    jobs: Mapping[str, JobEntry], told: Mapping[str, str | None] | None = None
) -> dict[tuple[str, str], str]:
    """Return former site and topic → the site at which that output is now.

    `told` names sites to which outputs are sent. Those that are elsewhere are left out.
    """
    moved: dict[tuple[str, str], str] = {}
    for name, entry in jobs.items():
        output = entry.output
        if (told or {}).get(name) in (None, output.site):
            for site in _output_sites(entry) - {output.site}:
                moved |= {(site, topic): output.site for topic in (output.topic, output.rejected_topic)}
    for output in (entry.output for entry in jobs.values()):  # Others may write to the topic where it was.
        for topic in (output.topic, output.rejected_topic):
            moved.pop((output.site, topic), None)
    return moved


def _at_current_sites(job: JobT, moved: Mapping[tuple[str, str], str]) -> JobT:
    inputs = [
        i if i.from_device else i.model_copy(update={"site": moved.get((i.site, i.topic), i.site)})
        for i in job.inputs
    ]
    return job.model_copy(update={"inputs": inputs})
