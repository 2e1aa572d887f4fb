"""Jobs that read what is about to change, and that nobody changes along with it.

A reader is resolved into streams when it is deployed or changed. So one that is left as it is would wait for
ever on a stream that nobody writes any more, and would never see a stream that comes to its topic.
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
    """What a reader that stays as it is would lose, or would not get."""

    writer: str
    """The job whose change that is."""
    error: ErrorDetail
    """Its field is one of the writer's description, `output.topic` or `output.dead_letter`."""


def unserved(
    before: Mapping[str, JobEntry], after: Mapping[str, JobEntry], changing: frozenset[str]
) -> list[Unserved]:
    """All that goes wrong for jobs outside `changing` when the jobs in it become, or leave, as `after` says.

    A topic may lose one of several writers: who reads it has the others. A stream that a reader reads
    already, because its writer was removed and comes back, is nothing new.
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
            f"{reader} reads this topic, and nobody would write it any more",
            wanted,
            f"{wanted.topic!r} at {wanted.site} for as long as {reader} reads it",
        )


def _gained(
    reader: str, entry: JobEntry, wanted: Input, now: list[TopicWriter], then: list[TopicWriter]
) -> Iterator[Unserved]:
    read = {(i.site, i.stream) for i in entry.inputs}
    known = {source.stream for source in now}
    for source in then:
        if source.stream not in known and (wanted.site, source.stream) not in read:
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
    """Raise `TowpathError` (not allowed) when jobs would not get what a new or changed job writes, or would
    have nobody any more who writes what they read."""
    name = after.spec.name
    changing = {name, *upcoming.coming, *upcoming.leaving}
    for each in unserved(jobs, {**upcoming.of(jobs), name: after}, frozenset(changing)):
        if each.writer == name:
            raise TowpathError.of(each.error)


def is_behind(entry: JobEntry, jobs: Mapping[str, JobEntry]) -> bool:
    """Whether something is written to a topic of the job that it does not read: it came after the job."""
    read = {(i.site, i.stream) for i in entry.inputs}
    return any(
        (wanted.site, source.stream) not in read
        for wanted in entry.spec.inputs
        if not wanted.from_device
        for source in _others(jobs, wanted, entry.spec.name)
    )
