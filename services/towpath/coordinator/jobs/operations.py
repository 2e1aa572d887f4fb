"""Operations under way: accept them atomically, run each to its end, continue old ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Any
from weakref import WeakValueDictionary

from towpath.contracts.commands import OperationAnswer, OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command
from towpath.coordinator.durable_tasks import DurableTasks
from towpath.coordinator.migrations.requests import check_abortable, check_finishable, holding, rolled_back
from towpath.coordinator.registry.jobs import ABORTS, FINISHES, Changed, Registry
from towpath.protocols.record import ENDED, OperationRecord
from towpath.protocols.requests import Requests
from towpath.protocols.runner import Runner
from towpath.tasks import end
from towpath.telemetry.logs import about
from towpath.telemetry.tracing import traceparent

log = logging.getLogger(__name__)

DECISIONS = 5
"""Times that a decision is made because the job changed meanwhile, before the sender must wait."""


_EVENTS: dict[str, Callable[[Requests], asyncio.Event]] = {
    ABORTS: attrgetter("abort"),
    FINISHES: attrgetter("finish"),
}
"""Kind of request in the registry → the event that tells the operation's task."""


class Operations:
    """Owns the tasks of all operations of this coordinator."""

    def __init__(self, registry: Registry, runner: Runner) -> None:
        self._registry = registry
        self._runner = runner
        self._tasks = DurableTasks("operation", self._run, self._forget_requests)
        self._requests: dict[str, Requests] = {}
        self._guards: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def guard(self, job: str) -> asyncio.Lock:
        """Held while an operation on the job is accepted, and while reconciliation touches the job."""
        return self._guards.setdefault(job, asyncio.Lock())

    async def continue_unfinished(self) -> None:
        """Run every operation that an earlier coordinator left."""
        for operation in await self._registry.unfinished():
            log.info("continuing operation %s", operation)
            self._tasks.start(operation)

    async def accept(
        self,
        command: Command[Any],
        job: str,
        plan: Callable[[], Awaitable[OperationRecord]],
        *,
        wait: bool,
    ) -> OperationAnswer:
        """Decide, write and run. A repeated command joins its first operation, or gets its answer.

        Raises `TowpathError` for everything that the plan refuses, and `failed` for an operation that was
        waited for and rolled back.
        """
        operation = await self._registry.operation_of(command.id)
        if operation is None:
            operation = await self._begin(job, plan)
        record, _ = await self._registry.load(operation)
        if record.state not in ENDED:
            running = self._tasks.start(operation)
            if not wait:
                return record.answer()
            if await self._holds_first(operation, running):
                return holding(record)
            record = await asyncio.shield(running)
        return _outcome(record) if wait else record.answer()

    async def _holds_first(self, operation: str, running: asyncio.Task[OperationRecord]) -> bool:
        """Wait until the operation has ended, or holds. Return True in the second case."""
        holds = asyncio.create_task(self._requests_of(operation).holding.wait())
        try:
            await asyncio.wait((holds, running), return_when=asyncio.FIRST_COMPLETED)
            return not running.done()
        finally:
            await end([holds])

    async def abort(self, operation: str, *, wait: bool) -> OperationAnswer:
        """Roll back a migration that is under way. A repetition has no further effect.

        Raises `TowpathError`: `not_allowed` when it has ended or is past the point of no return, `failed`
        when it was waited for and could not be undone.
        """
        record, entries = await self._registry.load(operation)
        check_abortable(record, entries)
        return await self._requested(record, ABORTS, rolled_back, wait=wait)

    async def finish(self, operation: str, *, wait: bool) -> OperationAnswer:
        """Let a migration go on that holds, or will hold. A repetition has no further effect.

        Raises `TowpathError`: `not_allowed` when it does not hold or was rolled back, `failed` when it was
        waited for and rolled back.
        """
        record, _ = await self._registry.load(operation)
        check_finishable(record)
        return await self._requested(record, FINISHES, _outcome, wait=wait)

    async def _requested(
        self,
        record: OperationRecord,
        kind: str,
        outcome: Callable[[OperationRecord], OperationAnswer],
        *,
        wait: bool,
    ) -> OperationAnswer:
        """Keep a request about an operation that has not ended, and let the operation follow it."""
        if record.state in ENDED or not await self._registry.request(record, kind):
            ended, _ = await self._registry.load(record.id)
            return outcome(ended)
        # SIGKILL here: the request is kept, and the next coordinator finds it.
        _EVENTS[kind](self._requests_of(record.id)).set()
        running = self._tasks.start(record.id)
        return outcome(await asyncio.shield(running)) if wait else record.answer()

    def _requests_of(self, operation: str) -> Requests:
        return self._requests.setdefault(operation, Requests())

    async def _begin(self, job: str, plan: Callable[[], Awaitable[OperationRecord]]) -> str:
        async with self.guard(job):
            for _ in range(DECISIONS):
                record = await plan()
                try:
                    operation = await self._registry.begin(_traced(record))
                except Changed:
                    continue
                # SIGKILL here: accepted, not running. The next coordinator finds it unfinished.
                self._tasks.start(operation)
                return operation
        raise TowpathError(ErrorCode.BUSY, "the job keeps changing", field="job", value=job)

    async def _run(self, operation: str) -> OperationRecord:
        requests = self._requests_of(operation)
        for kind, event_in in _EVENTS.items():
            if await self._registry.is_requested(operation, kind):
                event_in(requests).set()
        with about(operation=operation):
            return await self._runner.run(operation, requests)

    def _forget_requests(self, operation: str) -> None:
        self._requests.pop(operation, None)

    async def stop(self) -> None:
        """Stop all operations where they are. The next coordinator continues them."""
        await self._tasks.stop()


def _traced(record: OperationRecord) -> OperationRecord:
    """Return the operation as part of the trace of the command that begins it."""
    return record.model_copy(update={"traceparent": traceparent()})


def _outcome(record: OperationRecord) -> OperationAnswer:
    if record.state is OperationState.COMPLETED:
        return record.answer()
    raise TowpathError(
        ErrorCode.FAILED,
        f"operation {record.id} ({record.kind} {record.job}): {record.state}: {record.note}",
    )
