"""The one runner of all tables. It may be killed at any line; the next one finishes the operation.

1. The intention is in the journal before a step is sent.
2. The step is sent under an identifier made from operation, step and direction, so that its receiver
   recognises a repetition.
3. The confirmation, or the failure, is in the journal before anything follows from it.

Starting and resuming are the same code: fold the journal, do the rest.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from towpath.contracts.commands import JournalEntry
from towpath.contracts.errors import TowpathError
from towpath.contracts.events import OperationBegun, OperationEnded, StepDone
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import Held, StepCommand
from towpath.protocols.asking import Send, ask
from towpath.protocols.clock import Clock, SystemClock
from towpath.protocols.progress import OperationProgress, StepPhase
from towpath.protocols.record import ENDED, OperationRecord, RegistryChange
from towpath.protocols.requests import Requests, aborted, unless
from towpath.protocols.spans import in_step, tell_operation, tell_operation_begun, tell_step_begun
from towpath.protocols.step import Compensation, Hold, Step

UNDO_ATTEMPT_S = 3.0
"""A compensation without an answer is sent again after this time."""


class Superseded(Exception):
    """The journal has lines that this runner did not write: another coordinator has taken over."""


class Ledger(Protocol):
    """Durable memory: the registry, the records and the journals. Each call is atomic.

    Calls wait while the memory is out of reach. They raise `Superseded` when the journal does not have
    `position` lines.
    """

    async def load(self, operation: str) -> tuple[OperationRecord, list[JournalEntry]]:
        """Return the record and its journal."""
        ...

    async def append(
        self, record: OperationRecord, entry: JournalEntry, position: int, change: RegistryChange | None
    ) -> None:
        """Write one line, the record that follows from it, and the registry's change that it confirms."""
        ...

    async def finish(self, record: OperationRecord, position: int, change: RegistryChange | None) -> None:
        """Write the ended record and the change, and free the job for the next operation."""
        ...

    async def announced(self, operation: str) -> None:
        """Note that the end was announced: nothing is left to do for the operation."""
        ...


class Runner:
    """Takes operations to their end, one `run` each."""

    def __init__(
        self,
        ledger: Ledger,
        send: Send,
        publish: Callable[[Event], Awaitable[None]],
        clock: Clock | None = None,
    ) -> None:
        self._ledger = ledger
        self._send = send
        self._publish = publish
        self._clock = clock or SystemClock()

    async def run(self, operation: str, requests: Requests | None = None) -> OperationRecord:
        """Take an accepted operation to its end, from any point of its journal. Return its final record.

        Raises `Superseded` when another coordinator runs it.
        """
        record, entries = await self._ledger.load(operation)
        if record.state not in ENDED:
            progress = OperationProgress(record, entries)
            tell_operation_begun(record)
            await self._repeat_last_event(progress)
            await self._forward(progress, requests or Requests())
            await self._back(progress)
            record, entries = await self._finish(progress), progress.entries
        # SIGKILL here: ended, not announced; the next coordinator comes to this line again.
        tell_operation(record, entries)
        await self._publish(_ended(record))
        await self._ledger.announced(operation)
        return record

    async def _repeat_last_event(self, progress: OperationProgress) -> None:
        """Publish the last event again: a coordinator may have been killed between writing and publishing."""
        record = progress.record
        if progress.entries:
            await self._publish(_step_done(record, progress.entries[-1]))
        else:
            await self._publish(_begun(record))

    async def _forward(self, progress: OperationProgress, requests: Requests) -> None:
        for step in progress.to_take():
            if progress.failure is not None:
                return
            if requests.abort.is_set() and not progress.beyond_return:
                await self._write(progress, step.name, StepPhase.FAILED, _reason(aborted()))
                continue
            await self._take(progress, step, requests)

    async def _take(self, progress: OperationProgress, step: Step[Any], requests: Requests) -> None:
        if step.name not in progress.record.begun:
            await self._write(progress, step.name, StepPhase.BEGUN)
        # SIGKILL here: begun, perhaps not sent. The next coordinator sends it, under the same identifier.
        action = step.command(progress.record)
        if isinstance(action, RegistryChange):
            # The change and its confirmation are one write: there is no moment in between.
            await self._write(progress, step.name, StepPhase.CONFIRMED, change=action)
            return
        try:
            with in_step(progress.record, step.name):
                if isinstance(action, Hold):
                    answer = await self._held(progress, step, action, requests)
                else:
                    command = action.model_copy(update={"id": f"{progress.record.id}-{step.name}"})
                    answer = await self._answer(progress, step, command, requests.abort)
        except TowpathError as error:
            await self._write(progress, step.name, StepPhase.FAILED, _reason(error))
            return
        # SIGKILL here: done, not confirmed. Sent again, the agent repeats its answer.
        await self._write(progress, step.name, StepPhase.CONFIRMED, answer.model_dump(mode="json"))

    async def _held(
        self, progress: OperationProgress, step: Step[Any], hold: Hold, requests: Requests
    ) -> Held:
        """Wait until the operation is to go on. Time counts from when the step began."""
        begun = progress.begun_at(step.name)
        waited_s = (self._clock.now() - begun).total_seconds()
        await requests.until_finish(None if hold.seconds is None else max(0.0, hold.seconds - waited_s))
        return Held(held_s=(self._clock.now() - begun).total_seconds())

    async def _answer(
        self, progress: OperationProgress, step: Step[Any], command: StepCommand[Any], abort: asyncio.Event
    ) -> Model:
        insist = progress.beyond_return and not step.optional
        deadline_s = math.inf if insist and step.endless else step.within_s(progress.record)
        asking = ask(
            self._send,
            self._clock,
            command,
            deadline_s=deadline_s,
            attempt_s=step.attempt_s,
            busy_s=step.busy_s,
            insist=insist,
        )
        return await (asking if progress.beyond_return else unless(abort, asking))

    async def _back(self, progress: OperationProgress) -> None:
        if progress.failure is None:
            return
        for step in progress.to_undo():
            assert step.compensation is not None
            await self._undo(progress, step.name, step.compensation)

    async def _undo(self, progress: OperationProgress, name: str, compensation: Compensation) -> None:
        await self._write(progress, name, StepPhase.COMPENSATING)
        # SIGKILL here, or after the answer: the same compensation is sent again.
        action = compensation.command(progress.record)
        command = action.model_copy(update={"id": f"{progress.record.id}-{name}-undo"})
        try:
            with in_step(progress.record, name, undo=True):
                answer = await ask(
                    self._send,
                    self._clock,
                    command,
                    deadline_s=compensation.deadline_s,
                    attempt_s=UNDO_ATTEMPT_S,
                    insist=True,
                )
        except TowpathError as error:
            await self._write(progress, name, StepPhase.FAILED, {"undo": True, **_reason(error)})
        else:
            await self._write(progress, name, StepPhase.COMPENSATED, answer.model_dump(mode="json"))

    async def _write(
        self,
        progress: OperationProgress,
        step: str,
        phase: StepPhase,
        detail: dict[str, Any] | None = None,
        change: RegistryChange | None = None,
    ) -> None:
        """Write a line, with the record that follows from it, then publish it."""
        entry = JournalEntry(step=step, phase=phase, at=self._clock.now(), detail=detail or {})
        position = len(progress.entries)
        progress.add(entry)
        await self._ledger.append(progress.record, entry, position, change)
        tell_step_begun(progress.record, entry)
        await self._publish(_step_done(progress.record, entry))

    async def _finish(self, progress: OperationProgress) -> OperationRecord:
        record = progress.ended(self._clock.now())
        change = progress.table.rolled_back(record) if progress.failure is not None else None
        await self._ledger.finish(record, len(progress.entries), change)
        return record


def _reason(error: TowpathError) -> dict[str, Any]:
    return {"reason": error.detail.one_line(), "error": error.detail.model_dump(mode="json")}


def _begun(record: OperationRecord) -> OperationBegun:
    job = record.after or record.entry_before
    return OperationBegun(
        at=record.begun_at,
        operation=record.id,
        command=record.command,
        asked_by=record.asked_by,
        kind=record.kind,
        job=record.job,
        source=record.source,
        target=record.target,
        strategy=record.strategy_name,
        inputs=job.inputs,
        output=job.output,
    )


def _step_done(record: OperationRecord, entry: JournalEntry) -> StepDone:
    return StepDone(
        at=entry.at,
        operation=record.id,
        job=record.job,
        step=entry.step,
        phase=entry.phase,
        detail=entry.detail,
    )


def _ended(record: OperationRecord) -> OperationEnded:
    assert record.ended_at is not None
    return OperationEnded(
        at=record.ended_at,
        operation=record.id,
        asked_by=record.asked_by,
        kind=record.kind,
        job=record.job,
        state=record.state,
        note=record.note,
        figures=record.figures,
    )
