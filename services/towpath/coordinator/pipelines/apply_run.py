"""Execute one apply: every change as ordinary operations, in order, some at a time.

An operation's command has an identifier made from the apply's. So a coordinator that takes over an apply
sends the same commands again, and finds or joins their operations.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from nats.errors import Error as NatsError

from towpath.composition.graph import readers_of
from towpath.contracts.commands import (
    DeployJob,
    MigrateJob,
    OperationAnswer,
    RemoveJob,
    StrategyName,
    UpdateJob,
)
from towpath.contracts.errors import ErrorCode, ErrorDetail, TowpathError
from towpath.contracts.message import Command, Event, now
from towpath.contracts.pipeline import Action, ChangeState, PipelineJob
from towpath.contracts.pipeline_commands import JobApplied
from towpath.contracts.site_commands import DropOutput, PrepareOutput
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.jobs.plans import Nothing, plan_deploy, plan_remove, plan_update
from towpath.coordinator.jobs.topics import is_read
from towpath.coordinator.migrations.planning import plan_migrate
from towpath.coordinator.pipelines.records import ApplyRecord, ChangeRecord
from towpath.coordinator.pipelines.upcoming import upcoming_jobs
from towpath.coordinator.registry.pipelines import PipelineStore
from towpath.coordinator.situation import Situation, Upcoming
from towpath.protocols.record import OperationRecord

log = logging.getLogger(__name__)

PREPARE_S = 30.0
PREPARE_ATTEMPT_S = 3.0
PREPARE_AT_ONCE = 8

AGAIN_S = 1.0
TRY_FOR_S = 60.0
"""Time for which a change is tried that is refused for now: another operation has its job, or its site is
starting."""

ENDED = frozenset({ChangeState.COMPLETED, ChangeState.FAILED, ChangeState.SKIPPED})

Plan = Callable[[], Awaitable[OperationRecord]]

Part = tuple[list[Action], Command[OperationAnswer], Callable[[Any], Plan]]
"""The actions of one operation on a job, the operation's command, and the function that plans it."""


class ApplyRun:
    """One apply under way."""

    def __init__(
        self,
        record: ApplyRecord,
        changes: dict[str, ChangeRecord],
        situation: Situation,
        operations: Operations,
        store: PipelineStore,
        publish: Callable[[Event], Awaitable[None]],
    ) -> None:
        self.record = record
        self.changes = changes
        self._situation = situation
        self._operations = operations
        self._store = store
        self._publish = publish
        self._specs = {job.name: job for job in record.spec.jobs}
        self._over = {job: asyncio.Event() for job in changes}
        self._slots = asyncio.Semaphore(record.at_once)
        self._upcoming = Upcoming(pipeline=record.pipeline)

    async def run(self) -> None:
        """Execute all changes. Their outcome is in `changes`."""
        changing = [change for change in self.changes.values() if not change.keeps]
        leaving = {job for job, c in self.changes.items() if Action.REMOVE in c.change.actions}
        jobs = await self._situation.registry.jobs()
        record, registry = self.record, self._situation.registry
        self._upcoming = await upcoming_jobs(record.spec, leaving, jobs, registry, record.artefacts)
        # Changes that an earlier coordinator began have their streams, and may be beyond rolling back.
        waiting = [change for change in changing if change.state is ChangeState.WAITING]
        for job, (state, error) in (await self._unprepared(waiting)).items():
            await self._become(self.changes[job], state, error=error)
        async with asyncio.TaskGroup() as group:
            for change in changing:
                group.create_task(self._take(change.change.job))
        if self.record.purge:
            await self._purge()

    async def _unprepared(self, waiting: list[ChangeRecord]) -> dict[str, tuple[ChangeState, ErrorDetail]]:
        """Make the new streams, because readers start before writers.

        Return the failed changes: those whose stream could not be made, and those of its readers.
        """
        new = [c.change.job for c in waiting if {Action.ADD, Action.REDIRECT} & set(c.change.actions)]
        slots = asyncio.Semaphore(PREPARE_AT_ONCE)
        outcomes = await asyncio.gather(*(self._prepare(job, slots) for job in new))
        failed = {job: error for job, error in zip(new, outcomes, strict=True) if error is not None}
        reading = readers_of(entry.spec for entry in self._upcoming.coming.values()) if failed else {}
        ends = {
            reader: (ChangeState.SKIPPED, _reads_from(writer))
            for writer in failed
            for reader in sorted(reading.get(writer, set()) & set(new))
        }
        return ends | {job: (ChangeState.FAILED, error) for job, error in failed.items()}

    async def _prepare(self, job: str, slots: asyncio.Semaphore) -> ErrorDetail | None:
        """Make the job's stream at its site. Return the error if that fails."""
        output, operation = self._upcoming.coming[job].output, f"{self.record.id}-prepare"
        command = PrepareOutput(site=output.site, operation=operation, job=job, output=output)
        try:
            async with slots:
                await self._situation.bus.request(command, deadline_s=PREPARE_S, attempt_s=PREPARE_ATTEMPT_S)
        except TowpathError as error:
            return error.detail
        except (NatsError, OSError) as error:
            return ErrorDetail(code=ErrorCode.UNREACHABLE, message=f"{type(error).__name__}: {error}")
        return None

    async def _purge(self) -> None:
        """Delete the results of removed jobs. This comes last, because others may read them until then."""
        for job, change in self.changes.items():
            if Action.REMOVE not in change.change.actions or change.state is not ChangeState.COMPLETED:
                continue
            former = await self._situation.registry.former(job)
            if former is None:
                continue
            for output in [*former.closed, *([former.output] if former.output else [])]:
                if is_read(output, await self._situation.registry.jobs()):
                    log.warning("results of %s at %s are read: they stay", job, output.site)
                    continue
                command = DropOutput(
                    site=output.site, operation=f"{self.record.id}-purge", job=job, streams=[output.stream]
                )
                try:
                    await self._situation.bus.request(
                        command, deadline_s=PREPARE_S, attempt_s=PREPARE_ATTEMPT_S
                    )
                except (TowpathError, NatsError, OSError) as error:
                    # They expire by age like all others; a pipeline that is gone stays gone.
                    log.warning("results of %s at %s were not deleted: %s", job, output.site, error)

    async def _take(self, job: str) -> None:
        change = self.changes[job]
        try:
            for first in change.change.after:
                await self._over[first].wait()
            if change.state in ENDED:
                return
            failed = [f for f in change.change.after if self.changes[f].state is not ChangeState.COMPLETED]
            if failed:
                await self._become(change, ChangeState.SKIPPED, error=_comes_after(failed))
                return
            async with self._slots:
                await self._carry_out(job)
        finally:
            self._over[job].set()

    async def _carry_out(self, job: str) -> None:
        change = await self._become(self.changes[job], ChangeState.RUNNING)
        try:
            for number, (actions, command, plan) in enumerate(self._commands(job)):
                identifier = f"{self.record.id}-{self.record.order.index(job)}-{number}"
                part = {"id": identifier, "asked_by": self.record.asked_by}
                answer = await self._insist(command.model_copy(update=part), job, plan)
                known = [answer.operation] if answer and answer.operation not in change.operations else []
                change = change.model_copy(
                    update={
                        "operations": [*change.operations, *known],
                        "done": [*(done for done in change.done if done not in actions), *actions],
                    }
                )
        except TowpathError as error:
            log.warning("apply %s: %s: %s", self.record.id, job, error)
            await self._become(change, ChangeState.FAILED, error=error.detail)
        else:
            await self._become(change, ChangeState.COMPLETED)

    def _commands(self, job: str) -> list[Part]:
        """Return the operations of a change, each with the function that plans it."""
        situation, upcoming, record = self._situation, self._upcoming, self.record
        actions = self.changes[job].change.actions
        if Action.REMOVE in actions:
            remove = RemoveJob(job=job, drain=not record.now)
            return [([Action.REMOVE], remove, lambda c: lambda: plan_remove(c, situation))]
        wanted = self._specs[job]
        if Action.ADD in actions:
            deploy = DeployJob(spec=wanted.job_spec())
            return [([Action.ADD], deploy, lambda c: lambda: plan_deploy(c, situation, upcoming))]
        parts: list[Part] = []
        if changed := [action for action in actions if action in (Action.CHANGE, Action.REDIRECT)]:
            update = UpdateJob(spec=upcoming.coming[job].spec, drop_state=job in record.drop_state)
            parts.append((changed, update, lambda c: lambda: plan_update(c, situation, upcoming)))
        if Action.MOVE in actions:
            parts.append(([Action.MOVE], _move(wanted), lambda c: lambda: plan_migrate(c, situation)))
        return parts

    async def _insist(
        self, command: Command[OperationAnswer], job: str, plan: Callable[[Any], Plan]
    ) -> OperationAnswer | None:
        """Execute a command. Repeat it while the reason of its refusal may pass. None: nothing was to do.

        An accepted command is followed to its end, also when another coordinator executes it.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + TRY_FOR_S
        while True:
            try:
                return await self._operations.accept(command, job, plan(command), wait=True)
            except Nothing:
                return None
            except TowpathError as error:
                if error.detail.code is ErrorCode.ALREADY_THERE or _is_gone(command, error):
                    return None
                if not error.detail.retryable:
                    raise
                is_accepted = await self._situation.registry.operation_of(command.id) is not None
                if loop.time() > end and not is_accepted:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _become(
        self, change: ChangeRecord, state: ChangeState, error: ErrorDetail | None = None
    ) -> ChangeRecord:
        """Save the change's new state, then publish it."""
        ended = now() if state in ENDED else None
        begun = change.begun_at or (now() if state is ChangeState.RUNNING else None)
        change = change.model_copy(
            update={"state": state, "error": error, "begun_at": begun, "ended_at": ended}
        )
        self.changes[change.change.job] = change
        await self._store.save_change(self.record.id, change)
        await self._publish(
            JobApplied(
                pipeline=self.record.pipeline,
                apply=self.record.id,
                job=change.change.job,
                actions=change.change.actions,
                state=state,
                done=change.done,
                error=error,
            )
        )
        return change


def _move(wanted: PipelineJob) -> MigrateJob:
    # Twins would publish until someone ends that, and the change would never be done.
    hold_s = 0.0 if wanted.strategy is StrategyName.TWIN else None
    return MigrateJob(job=wanted.name, to=wanted.site, strategy=wanted.strategy, hold_s=hold_s)


def _is_gone(command: Command[OperationAnswer], error: TowpathError) -> bool:
    """Tell if someone else has removed a job that is to be removed."""
    return isinstance(command, RemoveJob) and error.detail.code is ErrorCode.UNKNOWN_JOB


def _reads_from(writer: str) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.FAILED, message=f"reads what {writer} writes, whose stream could not be made"
    )


def _comes_after(failed: list[str]) -> ErrorDetail:
    return ErrorDetail(
        code=ErrorCode.FAILED, message=f"comes after the change of {', '.join(failed)}, which failed"
    )
