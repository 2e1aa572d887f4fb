"""Jobs as a graph: an edge leads from the writer of a topic to its reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from towpath.contracts.job import JobSpec


class Place(NamedTuple):
    """A topic at a site. Every edge of the graph passes through one."""

    site: str
    topic: str

    def __str__(self) -> str:
        return f"{self.site}/{self.topic}"


class Stream(NamedTuple):
    """One of the two streams that a job writes: results or rejected events."""

    job: str
    content: Literal["results", "rejected"]

    def __str__(self) -> str:
        return self.job if self.content == "results" else f"{self.job} (rejected events)"


def written_by(job: JobSpec) -> dict[Place, Stream]:
    """Return the places that the job writes, for its results and for the events it rejects."""
    rejected = {Place(job.output_site, job.output.rejected_topic): Stream(job.name, "rejected")}
    return rejected | {Place(job.output_site, job.output.topic): Stream(job.name, "results")}


def read_by(job: JobSpec) -> list[Place]:
    """Return the places where the job reads what jobs write, in input order. Device topics are no edges."""
    return [Place(i.site, i.topic) for i in job.inputs if not i.from_device]


def writers(jobs: Iterable[JobSpec]) -> dict[Place, set[Stream]]:
    """Return place → the streams written there. Several jobs may write one topic."""
    found: dict[Place, set[Stream]] = {}
    for job in jobs:
        for place, stream in written_by(job).items():
            found.setdefault(place, set()).add(stream)
    return found


def writers_of(jobs: Iterable[JobSpec]) -> dict[str, set[str]]:
    """Return job → the jobs that write what it reads. It is one of them if it reads its own results."""
    known = list(jobs)
    at = writers(known)
    return {job.name: {stream.job for place in read_by(job) for stream in at.get(place, ())} for job in known}


def readers_of(jobs: Iterable[JobSpec]) -> dict[str, set[str]]:
    """Return job → the jobs that read what it writes. It is one of them if it reads its own results."""
    return _reversed(writers_of(jobs))


def cycles(readers: Mapping[str, set[str]]) -> list[list[str]]:
    """Return cycles that share no job, enough to make the graph acyclic when all their jobs are removed."""
    edges = {name: set(after) for name, after in readers.items()}
    found: list[list[str]] = []
    while circle := _circle(_without_ends(edges)):
        found.append(circle)
        edges = {n: after.difference(circle) for n, after in edges.items() if n not in circle}
    return found


def _circle(edges: Mapping[str, set[str]]) -> list[str]:
    """Return one cycle of a graph whose nodes all have an outgoing edge. Empty if the graph is."""
    if not edges:
        return []
    path: dict[str, int] = {}
    node = min(edges)
    while node not in path:
        path[node] = len(path)
        node = min(edges[node])
    circle = list(path)[path[node] :]
    first = circle.index(min(circle))
    return circle[first:] + circle[:first]


def _without_ends(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the graph after nodes without an outgoing edge were removed until none was left."""
    left = {name: set(after) & edges.keys() for name, after in edges.items()}
    before = _reversed(left)
    ends = [name for name, after in left.items() if not after]
    while ends:
        end = ends.pop()
        del left[end]
        for name in before.get(end, ()):
            left[name].discard(end)
            if not left[name]:
                ends.append(name)
    return left


def _reversed(edges: Mapping[str, set[str]]) -> dict[str, set[str]]:
    turned: dict[str, set[str]] = {name: set() for name in edges}
    for name, others in edges.items():
        for other in others:
            turned[other].add(name)
    return turned
