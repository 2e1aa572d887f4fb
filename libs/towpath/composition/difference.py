"""Plan one change per job to get from what runs to a new description, and order the changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from towpath.composition.field_changes import FieldChange, field_changes
from towpath.composition.graph import (
    Place,
    Stream,
    read_by,
    readers_of,
    writers,
    writers_of,
    written_by,
)
from towpath.composition.running import RunningJob
from towpath.contracts.job import JobSpec
from towpath.contracts.pipeline import Action, PipelineJob, PipelineSpec, PlannedChange
from towpath.operators.kind import user_code, with_code_at

_REASON_FIELDS = 3
"""A reason names this many fields, and then the number of the others."""

_RULE_OF_AN_INPUT = re.compile(r"^inputs\[\d+\]\.(identity|repeats_within|on_loss|format|sample|thinning)")
"""Fields of an input that leave its topic as it is."""


def spelled_out(job: JobSpec, running: RunningJob | None = None) -> JobSpec:
    """Return the job's description with its output site named: a job that moves leaves its output behind."""
    site = job.output.site or (running.spec.output_site if running else job.site)
    own = job.job_spec() if isinstance(job, PipelineJob) else job
    return own.model_copy(update={"output": own.output.model_copy(update={"site": site})})


def with_path_of(job: JobSpec, other: JobSpec) -> JobSpec:
    """Return the job with its user code at `other`'s path: the same code may have several paths."""
    own, others = user_code(job.operator), user_code(other.operator)
    if own is None or others is None or others.artefact is None:
        return job
    return job.model_copy(update={"operator": with_code_at(job.operator, others.artefact)})


def pinned(spec: PipelineSpec, mine: Mapping[str, RunningJob]) -> PipelineSpec:
    """Return the pipeline with all output sites named, so that a later rollback leads to the same places."""
    jobs = [j.model_copy(update={"output": spelled_out(j, mine.get(j.name)).output}) for j in spec.jobs]
    return spec.model_copy(update={"jobs": jobs})


@dataclass(frozen=True)
class _Graphs:
    """Topics written and read before and after the change."""

    written: Mapping[Place, set[Stream]]
    """Written by the jobs that run now."""
    wanted: Mapping[Place, set[Stream]]
    """Written by the jobs that will run."""
    writers_now: Mapping[str, set[str]]
    readers_then: Mapping[str, set[str]]
    """Of each job, those that begin with the first result after their own start. Others miss nothing."""
    turning: frozenset[str]
    """Jobs whose results or rejected events will go into other streams: a topic or the site changes."""

    @classmethod
    def of(cls, now: Iterable[JobSpec], then: Iterable[JobSpec]) -> _Graphs:
        before, after = [*now], [*then]
        were = {job.name: written_by(job) for job in before}
        turning = frozenset(j.name for j in after if were.get(j.name, written_by(j)) != written_by(j))
        waiting = [
            j.model_copy(update={"inputs": [i for i in j.inputs if i.start == "latest"]}) for j in after
        ]
        return cls(writers(before), writers(after), writers_of(before), readers_of(waiting), turning)

    def gained(self, job: JobSpec, reads: frozenset[Stream] | None) -> list[tuple[Place, Stream]]:
        """Return streams that will begin to write where the job reads, or that are not in what it `reads`."""
        read = self.written if reads is None else {place: {*reads} for place in read_by(job)}
        return _new_at(read_by(job), read, self.wanted)

    def turned(self, job: JobSpec) -> list[tuple[Place, Stream]]:
        """Return streams that write where the job reads, now and later, but will do so in another stream."""
        return [
            (place, stream)
            for place in read_by(job)
            for stream in sorted(self.wanted.get(place, set()) & self.written.get(place, set()))
            if stream.job in self.turning
        ]

    def lost(self, job: JobSpec) -> list[tuple[Place, Stream]]:
        """Return streams that will stop writing where the job reads."""
        return _new_at(read_by(job), self.wanted, self.written)


def _new_at(
    places: list[Place], before: Mapping[Place, set[Stream]], after: Mapping[Place, set[Stream]]
) -> list[tuple[Place, Stream]]:
    return [
        (place, stream)
        for place in places
        for stream in sorted(after.get(place, set()) - before.get(place, set()))
    ]


def difference(
    spec: PipelineSpec,
    mine: Mapping[str, RunningJob],
    others: Mapping[str, RunningJob],
    artefacts: Mapping[str, str] | None = None,
) -> list[PlannedChange]:
    """Plan the changes that lead from `mine`, the pipeline's running jobs, to `spec`. Sorted by name.

    `others` are all other running jobs. There is one change for each job of `spec` and `mine`. A job that
    needs no change is kept. It needs none if only its strategy, resources or placement differ, or where its
    inputs start, because that matters to a new job only. `after` orders new jobs from the sinks to the
    sources, where a reader would miss what came before its start, and jobs that leave or are redirected from
    the sources to the sinks. It has no cycles if `spec` and what runs have none (see `validation`).

    `artefacts` are digests of the user code that jobs will run, by job. Where both digests are known, other
    code at the same path is a change, and the same code at another path is none. Strategy and forecast of
    moves are not known here.
    """
    wanted = {job.name: spelled_out(job, mine.get(job.name)) for job in spec.jobs}
    around = [spelled_out(job.spec) for job in others.values()]
    now = {name: spelled_out(job.spec) for name, job in mine.items()}
    graphs = _Graphs.of([*now.values(), *around], [*wanted.values(), *around])
    code = artefacts or {}
    changes = [_planned(wanted[name], mine.get(name), graphs, code.get(name)) for name in wanted]
    gone = [
        PlannedChange(job=name, actions=[Action.REMOVE], reason="not in the description", source=job.site)
        for name, job in mine.items()
        if name not in wanted
    ]
    ordered = sorted([*changes, *gone], key=lambda change: change.job)
    actions = {change.job: frozenset(change.actions) for change in ordered}
    return [c.model_copy(update={"after": _after(c, actions, graphs)}) for c in ordered]


def _planned(
    wanted: JobSpec, running: RunningJob | None, graphs: _Graphs, artefact: str | None
) -> PlannedChange:
    if running is None:
        return PlannedChange(
            job=wanted.name, actions=[Action.ADD], reason="new in the description", target=wanted.site
        )
    if artefact is not None and artefact == running.artefact:
        wanted = with_path_of(wanted, running.spec)
    changes = _changes(wanted, running)
    found = _found(wanted, running, graphs, changes)
    if artefact is not None and running.artefact not in (None, artefact):
        found.setdefault(Action.CHANGE, []).append("other user code")
    moves = wanted.site != running.site
    if moves:
        changes = [*changes, FieldChange("site", running.site, wanted.site)]
        found[Action.MOVE] = [f"site: {running.site} → {wanted.site}"]
    return PlannedChange(
        job=wanted.name,
        actions=[action for action in Action if action in found] or [Action.KEEP],
        reason=_sentence([text for action in Action for text in found.get(action, ())]),
        fields=[change.as_told() for change in changes],
        source=running.site if moves else None,
        target=wanted.site if moves else None,
    )


def _changes(wanted: JobSpec, running: RunningJob) -> list[FieldChange]:
    """Return the fields that differ and need an action."""
    differing = field_changes(spelled_out(running.spec), wanted)
    return [change for change in differing if _action_of(change.path) is not None]


def _found(
    wanted: JobSpec, running: RunningJob, graphs: _Graphs, changes: list[FieldChange]
) -> dict[Action, list[str]]:
    """Return the actions for fields that differ, and for new writers to topics the job goes on reading."""
    found: dict[Action, list[str]] = {}
    for change in changes:
        action = _action_of(change.path)
        if action is not None:
            found.setdefault(action, []).append(str(change))
    if not any(reason.startswith("inputs") for reason in found.get(Action.REDIRECT, ())):
        for place, stream in graphs.gained(wanted, running.reads):
            found.setdefault(Action.REDIRECT, []).append(f"{place} is now also written by {stream}")
        for place, stream in graphs.turned(wanted):
            found.setdefault(Action.REDIRECT, []).append(f"{stream} writes {place} into another stream")
        for place, stream in graphs.lost(wanted):
            found.setdefault(Action.REDIRECT, []).append(f"{place} is no longer written by {stream}")
    return found


def _action_of(path: str) -> Action | None:
    """Return the action that a differing field needs, or None if it needs none."""
    if path == "site" or path.endswith("].start"):
        # The site where a job first ran is history. What counts is where it runs now.
        return None
    if _RULE_OF_AN_INPUT.search(path):
        return Action.CHANGE
    return Action.REDIRECT if path.startswith(("inputs", "output")) else Action.CHANGE


def _sentence(reasons: list[str]) -> str:
    more = len(reasons) - _REASON_FIELDS
    shown = "; ".join(reasons[:_REASON_FIELDS]) or "unchanged"
    return f"{shown}; and {more} more" if more > 0 else shown


def _after(change: PlannedChange, actions: Mapping[str, frozenset[Action]], graphs: _Graphs) -> list[str]:
    """Return the jobs whose changes come before this one.

    A job that stops reading a topic must first receive what is still written to it. So its writers stop, or
    are redirected, before it. Jobs that leave or are redirected therefore go from the sources to the sinks of
    the present graph. New jobs go from the sinks to the sources of the future graph, where the reader begins
    with the latest; one that begins with the earliest may start at the same time.
    """
    own = frozenset(change.actions)
    if own & {Action.REMOVE, Action.REDIRECT}:
        first, counts = graphs.writers_now[change.job], frozenset({Action.REMOVE, Action.REDIRECT})
    elif Action.ADD in own:
        first, counts = graphs.readers_then[change.job], frozenset({Action.ADD})
    else:
        return []
    return sorted(n for n in first if n != change.job and actions.get(n, frozenset()) & counts)
