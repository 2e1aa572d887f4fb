"""Change jobs and pipelines, and put them back as they were before the run.

The state of the mesh is noted before the first change, and each change before it is sent. So a run that is
interrupted before an answer knows its requests. Jobs that the run brought are removed in the end. Jobs that
were there before become what they were, and are never deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.bus import Bus
from towpath.bus.bus import AnswerT
from towpath.contracts.commands import DeployJob, JobView, ListJobs, MigrateJob, RemoveJob, UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, new_identifier
from towpath.contracts.pipeline import ApplyState, ApplyView
from towpath.contracts.pipeline_commands import ApplyPipeline, DeletePipeline, ListPipelines, RollbackPipeline
from towpath.contracts.standby import FailOverJob
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.scenarios.reversibility import Standing, check_reversible
from towpath.protocols.asking import SILENCE
from towpath.telemetry.tracing import untraced

CHANGE_S, ATTEMPT_S = 90.0, 10.0

DEPLOY_S = 300.0
"""Seconds for a deployment: the first at a site starts its engine, which can take a busy machine minutes."""

APPLY_S = 240.0
"""Seconds for all jobs of a pipeline to change."""

MOVE_S = 180.0
"""Seconds for a job to be moved back: a handover waits for up to six of its micro-batches."""

LOOK_S = 20.0
LOOK_EVERY_S = 0.3

OUTSTANDING_S = 30.0
"""Seconds for the outcome of a change whose answer the run did not await."""

AT_REST_S = 60.0
"""Seconds for operations on a job or a pipeline to end before it is put back."""

Undo = Callable[[], Awaitable[None]]


@dataclass
class Restoration:
    """The undo log of one run."""

    bus: Bus
    journal: Journal
    before: Standing | None = None
    """The state of the mesh before the run. None before `look`."""
    _jobs: dict[str, None] = field(default_factory=dict)
    """Names of the jobs that were changed, in order."""
    _pipelines: dict[str, None] = field(default_factory=dict)
    _outstanding: dict[str, Command[Any]] = field(default_factory=dict)
    """Changes with an unknown outcome, by id."""

    async def look(self) -> None:
        """Note the state of the mesh. Raises `TowpathError` if the coordinator does not answer."""
        self.before = await self._standing()

    @property
    def jobs_before(self) -> frozenset[str]:
        """Names of the jobs that were there before the run."""
        return frozenset(self.before.jobs if self.before else ())

    async def send(self, change: Command[AnswerT], *, attempt_s: float = ATTEMPT_S) -> AnswerT:
        """Send a command that changes a job or a pipeline.

        Raises `TowpathError` if the coordinator refuses it, or, before anything is sent, if it could not be
        put back.
        """
        assert self.before is not None, "look first: what is not known cannot be put back"
        check_reversible(change, self.before)
        self._note(change, self.before)
        self._outstanding[change.id] = change
        try:
            answer = await self.bus.request(change, deadline_s=_deadline_s(change), attempt_s=attempt_s)
        except TowpathError as error:
            if error.detail.code not in SILENCE:
                del self._outstanding[change.id]
            raise
        del self._outstanding[change.id]
        return answer

    async def put_back(self) -> list[str]:
        """Put everything back. Return in words what could not be. Raises `TowpathError` without an answer."""
        if not (self._jobs or self._pipelines):
            return []
        assert self.before is not None
        await self._know_outcomes()
        now = await self._at_rest()
        problems = await _in_whatever_order([*self._undo_of_pipelines(now), *self._undo_of_jobs(now)])
        now = await self._standing()
        mine = [was for name, was in self.before.jobs.items() if self._concerns(name, was)]
        return problems + await _in_whatever_order([self._undo_of_job(was, now) for was in mine])

    def _note(self, change: Command[Any], before: Standing) -> None:
        """Note, before it is sent, the subject of a change and its present state."""
        match change:
            case ApplyPipeline():
                name, noted = change.spec.name, self._pipelines
                pipeline = before.pipelines.get(name)
                was = pipeline and {"spec": pipeline.spec.model_dump(mode="json")}
            case DeployJob() | UpdateJob():
                name, noted = change.spec.name, self._jobs
                was = _noted(before.jobs.get(name))
            case MigrateJob() | RemoveJob() | FailOverJob():
                name, noted = change.job, self._jobs
                was = _noted(before.jobs.get(name))
            case _:
                raise AssertionError(f"{change.verb()} cannot be put back")
        if name not in noted:
            kind = "pipeline" if noted is self._pipelines else "job"
            self.journal.add(Entry.CHANGED, **{kind: name, "was": was})
            noted[name] = None

    def _concerns(self, name: str, was: JobView) -> bool:
        return name in self._jobs or was.pipeline in self._pipelines

    async def _know_outcomes(self) -> None:
        """Repeat the commands without an answer: each is executed once, and its end is told."""

        async def outcome(change: Command[Any]) -> None:
            try:
                await self.bus.request(change, deadline_s=OUTSTANDING_S, attempt_s=ATTEMPT_S)
            except TowpathError:
                return  # Refused or failed, or the state of the mesh will show it.

        await asyncio.gather(*(outcome(change) for change in self._outstanding.values()))

    async def _at_rest(self) -> Standing:
        """Return the state of the mesh, once no operation on the changed jobs is under way."""
        loop = asyncio.get_running_loop()
        end_at = loop.time() + AT_REST_S
        while True:
            now = await self._standing()
            moving = [name for name in self._jobs if name in now.jobs and now.jobs[name].operation]
            pipelines = [now.pipelines[name] for name in self._pipelines if name in now.pipelines]
            moving += [view.pipeline for view in pipelines if view.apply.state is ApplyState.RUNNING]
            if not moving or loop.time() > end_at:
                return now
            await asyncio.sleep(LOOK_EVERY_S)

    async def _standing(self) -> Standing:
        with untraced():
            jobs = await self.bus.request(ListJobs(), deadline_s=LOOK_S, attempt_s=ATTEMPT_S)
            pipelines = await self.bus.request(ListPipelines(), deadline_s=LOOK_S, attempt_s=ATTEMPT_S)
        by_name = {view.pipeline: view for view in pipelines.pipelines}
        return Standing({view.spec.name: view for view in jobs.jobs}, by_name)

    def _undo_of_pipelines(self, now: Standing) -> list[Undo]:
        assert self.before is not None
        undo: list[Undo] = []
        for name in self._pipelines:
            was, present = self.before.pipelines.get(name), now.pipelines.get(name)
            if present is None:
                continue
            if was is None:
                undo.append(self._applied(DeletePipeline(pipeline=name, now=True, purge=True)))
            elif present.version != was.version:
                undo.append(self._applied(RollbackPipeline(pipeline=name, version=was.version, now=True)))
        return undo

    def _undo_of_jobs(self, now: Standing) -> list[Undo]:
        """Remove the jobs that the run brought. A pipeline's jobs go with it."""
        assert self.before is not None
        brought = [name for name in self._jobs if name not in self.before.jobs and name in now.jobs]
        alone = [name for name in brought if now.jobs[name].pipeline is None]
        return [self._done(RemoveJob(job=name, purge=True)) for name in alone]

    def _undo_of_job(self, was: JobView, now: Standing) -> Undo:
        """Make a job what it was, where it was."""

        name = was.spec.name
        present = now.jobs.get(name)
        way_back = [] if present is None else _way_back(was, present)

        async def undo() -> None:
            if present is None:
                raise TowpathError(ErrorCode.UNKNOWN_JOB, "the job is gone", field="job", value=name)
            for number, command in enumerate(way_back):
                within_s = MOVE_S if isinstance(command, MigrateJob) else CHANGE_S
                try:
                    await self.bus.request(command, deadline_s=within_s, attempt_s=ATTEMPT_S)
                except TowpathError as error:
                    # The coordinator goes on with a command whose id it knows. A failed one needs a new id.
                    if error.detail.code not in SILENCE:
                        way_back[number] = command.model_copy(update={"id": new_identifier()})
                    raise

        return undo

    def _done(self, command: Command[Any]) -> Undo:
        async def undo() -> None:
            await self.bus.request(command, deadline_s=CHANGE_S, attempt_s=ATTEMPT_S)

        return undo

    def _applied(self, command: Command[ApplyView]) -> Undo:
        async def undo() -> None:
            check_applied(await self.bus.request(command, deadline_s=APPLY_S, attempt_s=ATTEMPT_S))

        return undo


def _deadline_s(change: Command[Any]) -> float:
    return {ApplyPipeline: APPLY_S, DeployJob: DEPLOY_S}.get(type(change), CHANGE_S)


def _way_back(was: JobView, present: JobView) -> list[Command[Any]]:
    """Return the commands that make a job what it was."""
    # The site in a description is the first one of the job. Neither a move nor an update changes it.
    spec = was.spec.model_copy(update={"site": present.spec.site})
    commands: list[Command[Any]] = []
    if spec != present.spec:
        # Keep the job's code, even if the file at its path has changed.
        commands.append(UpdateJob(spec=spec, keep_code=spec.operator == present.spec.operator))
    if present.site != was.site:
        commands.append(MigrateJob(job=was.spec.name, to=was.site))
    return commands


def _noted(view: JobView | None) -> dict[str, Any] | None:
    """Return the parts of a job that are needed to put it back by hand."""
    return view and {"site": view.site, "spec": view.spec.model_dump(mode="json")}


def check_applied(view: ApplyView) -> None:
    """Raise `TowpathError` if an apply has failed, with what each job says that is not as described."""
    if view.state is ApplyState.FAILED:
        said = [f"{each.change.job}: {each.error.one_line()}" for each in view.changes if each.error]
        why = "; ".join(said) or view.note
        raise TowpathError(ErrorCode.FAILED, why, field="pipeline", value=view.pipeline)


async def _in_whatever_order(undo: Sequence[Undo]) -> list[str]:
    """Do all of them. Return in words what could not be done.

    A job is not removed while another one reads its results. So refused removals are tried again as long as
    others succeed.
    """
    left, problems = list(undo), list[str]()
    while left:
        outcomes = await asyncio.gather(*(_outcome(each) for each in left))
        again = [each for each, problem in zip(left, outcomes, strict=True) if problem is not None]
        problems = [problem for problem in outcomes if problem is not None]
        if len(again) == len(left):
            return problems
        left = again
    return []


async def _outcome(undo: Undo) -> str | None:
    try:
        await undo()
    except (TowpathError, TimeoutError) as error:
        return str(error) or "no answer"
    return None
