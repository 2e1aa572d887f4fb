"""Check how jobs are connected: topics that no job writes, cycles, fields that do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from towpath.composition.graph import Place, cycles, readers_of, writers, written_by
from towpath.composition.paths import in_brackets
from towpath.composition.schemas import ResultFields, mismatches
from towpath.contracts.errors import ErrorCode, ErrorDetail
from towpath.contracts.job import JobSpec


def wiring_problems(jobs: list[JobSpec], around: list[JobSpec]) -> list[ErrorDetail]:
    """Return all wiring errors of `jobs`, a pipeline's, among the jobs that run `around` it.

    The names of all jobs must differ, and output sites must be named.
    """
    return [
        *_topics_dangling(jobs, around),
        *_topics_shared(jobs, around),
        *_circles(jobs, around),
        *_fields_missing(jobs, around),
    ]


def _topics_dangling(jobs: list[JobSpec], around: list[JobSpec]) -> Iterator[ErrorDetail]:
    written = writers([*jobs, *around])
    for position, job in enumerate(jobs):
        for number, wanted in enumerate(job.inputs):
            if wanted.from_device or Place(wanted.site, wanted.topic) in written:
                continue
            there = sorted(place.topic for place in written if place.site == wanted.site)
            yield ErrorDetail(
                code=ErrorCode.UNKNOWN_TOPIC,
                message=f"no job writes to this topic at {wanted.site}",
                field=f"jobs[{position}].inputs[{number}].topic",
                value=wanted.topic,
                allowed=[*there, "site/…"],
            )


def _topics_shared(jobs: list[JobSpec], around: list[JobSpec]) -> Iterator[ErrorDetail]:
    """Several jobs may write results to one topic, but rejected events must not be among them."""
    written = writers([*jobs, *around])
    for position, job in enumerate(jobs):
        if job.output.topic == job.output.rejected_topic:
            yield _shared(position, "dead_letter", Place(job.output_site, job.output.topic), job.name)
            continue
        for place, own in written_by(job).items():
            clashing = sorted(stream.job for stream in written[place] if stream.content != own.content)
            if clashing:
                field = "topic" if own.content == "results" else "dead_letter"
                yield _shared(position, field, place, ", ".join(clashing))


def _shared(position: int, field: str, place: Place, owner: str) -> ErrorDetail:
    content = "rejected events" if field == "topic" else "results"
    return ErrorDetail(
        code=ErrorCode.NOT_ALLOWED,
        message=f"{content} of {owner} already go to this topic",
        field=f"jobs[{position}].output.{field}",
        value=place.topic,
        allowed=f"a topic at {place.site} that carries no {content}",
    )


def _circles(jobs: list[JobSpec], around: list[JobSpec]) -> Iterator[ErrorDetail]:
    positions = {job.name: position for position, job in enumerate(jobs)}
    by_name = {job.name: job for job in [*jobs, *around]}
    readers = readers_of(by_name.values())
    for job in jobs:
        if job.name in readers[job.name]:
            yield _circle(positions[job.name], job, job, "the job would read what it writes itself")
    for circle in cycles({name: after - {name} for name, after in readers.items()}):
        # What runs has no cycles, so one of the pipeline's jobs is part of this one.
        here = next((n for n, name in enumerate(circle) if name in positions), None)
        if here is not None:
            job, writer = by_name[circle[here]], by_name[circle[here - 1]]
            shown = " → ".join([*circle[here:], *circle[:here], job.name])
            yield _circle(positions[job.name], job, writer, f"jobs read each other in a cycle: {shown}")


def _circle(position: int, job: JobSpec, writer: JobSpec, message: str) -> ErrorDetail:
    written = written_by(writer)
    number = next(n for n, i in enumerate(job.inputs) if Place(i.site, i.topic) in written)
    return ErrorDetail(
        code=ErrorCode.NOT_ALLOWED,
        message=message,
        field=f"jobs[{position}].inputs[{number}].topic",
        value=job.inputs[number].topic,
        allowed="topics that form no cycle",
    )


def _fields_missing(jobs: list[JobSpec], around: list[JobSpec]) -> Iterator[ErrorDetail]:
    fields = ResultFields({job.name: job for job in [*jobs, *around]})
    for position, job in enumerate(jobs):
        for _, error in mismatches(job, fields):
            place = in_brackets(["jobs", position, *(error.field or "").split(".")])
            yield error.model_copy(update={"field": place})
    positions = {job.name: position for position, job in enumerate(jobs)}
    for outside in around:
        for writer, error in mismatches(outside, fields):
            if writer in positions:
                yield error.model_copy(update={"field": f"jobs[{positions[writer]}].operator"})
