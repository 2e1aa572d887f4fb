"""Find jobs that read a topic that is about to change, and that do not change with it.

The inputs of a reader become streams when it is deployed or changed. So a reader that is left as it is would
wait without end for a stream that no job writes any more, and would never see a new stream of its topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.job import Input
from towpath.coordinator.jobs.topics import TopicWriter, sources
from towpath.coordinator.situation import Upcoming
from towpath.protocols.record import JobEntry


class Unserved(NamedTuple):
    """The results that a reader would lose, or would not get, if it stays as it is."""

    writer: str
    """The job that changes."""
    error: ErrorDetail
    """Its field is `output.topic` or `output.dead_letter` of the writer's description."""


def unserved(
    before: Mapping[str, JobEntry], after: Mapping[str, JobEntry], changing: frozenset[str]
) -> list[Unserved]:
    """Return all problems for jobs outside `changing` when the jobs in it become as in `after`, or leave.

    A topic may lose one of several writers: its readers have the others. A stream that a reader reads
    already, because its writer was removed and comes back, is not new.
    """
    found: dict[tuple[str, str | None], Unserved] = {}
    for name, reader in before.items():
        if name in changing:
            continue
        for wanted in (i for i in reader.spec.inputs if not i.from_device):
            now = _others(before, wanted, name)
            then = _others(after, wanted, name)
            for each in (*_lost(name, wanted, now, then), *_gained(name, reader, wanted, now, then)):
                if each.writer in changing:
                    found.setdefault((each.writer, each.error.field), each)
    return [*found.values()]


def _others(jobs: Mapping[str, JobEntry], wanted: Input, reader: str) -> list[TopicWriter]:
    return [source for source in sources(jobs, wanted.site, wanted.topic) if source.job != reader]


def _lost(reader: str, wanted: Input, now: list[TopicWriter], then: list[TopicWriter]) -> Iterator[Unserved]:
    if then:
        return
    for source in now:
        yield _unserved(
            source,
            f"{reader} reads this topic, and no one would write it any more",
            wanted,
            f"{wanted.topic!r} at {wanted.site} for as long as {reader} reads it",
        )


def _gained(
    reader: str, entry: JobEntry, wanted: Input, now: list[TopicWriter], then: list[TopicWriter]
) -> Iterator[Unserved]:
    read = {(i.site, i.stream) for i in entry.inputs}
    known = {source.place for source in now}
    for source in then:
        if source.place not in known and source.place not in read:
            turns = source.job in {other.job for other in now}
            yield _unserved(
                source,
                f"{reader} reads this topic, and would not get what {source.job} writes there"
                + (" from now on: another output is another stream" if turns else ""),
                wanted,
                "the output as it is"
                if turns
                else f"another topic, which {reader} can then be told to read as well",
            )


def _unserved(source: TopicWriter, message: str, wanted: Input, allowed: str) -> Unserved:
    return Unserved(
        source.job,
        ErrorDetail(
            code=ErrorCode.NOT_ALLOWED,
            message=message,
            field="output.dead_letter" if source.is_rejected else "output.topic",
            value=wanted.topic,
            allowed=allowed,
        ),
    )


def check_served(after: JobEntry, jobs: Mapping[str, JobEntry], upcoming: Upcoming) -> None:
    """Raise `TowpathError` (not allowed) when a new or changed job harms readers.

    They would not get its results, or no job would write their input any more."""
    name = after.spec.name
    changing = {name, *upcoming.coming, *upcoming.leaving}
    for each in unserved(jobs, {**upcoming.of(jobs), name: after}, frozenset(changing)):
        if each.writer == name:
            raise TowpathError.of(each.error)


def is_behind(entry: JobEntry, jobs: Mapping[str, JobEntry]) -> bool:
    """Tell if a topic of the job has a stream that the job does not read, because it came after the job."""
    read = {(i.site, i.stream) for i in entry.inputs}
    return any(
        source.place not in read
        for wanted in entry.spec.inputs
        if not wanted.from_device
        for source in _others(jobs, wanted, entry.spec.name)
    )
