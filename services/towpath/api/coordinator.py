"""The coordinator as handlers see it: every command has a deadline, and long ones can be waited for."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from nats.errors import Error as NatsError

from towpath.api.admission import asked_by
from towpath.bus import Bus
from towpath.bus.spans import is_looking
from towpath.contracts.commands import OperationAnswer, OperationState, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Command, Model
from towpath.contracts.pipeline import ApplyState, ApplyView
from towpath.contracts.pipeline_commands import (
    ApplyPipeline,
    DeletePipeline,
    PlanPipeline,
    RetryPipeline,
    RollbackPipeline,
    ShowPipeline,
)
from towpath.telemetry.tracing import untraced

DEADLINE_S = 15.0
"""Deadline for any answer. Commands are answered when they are durably accepted."""

ATTEMPT_S = 5.0
"""After this, the same command is sent again. The coordinator recognises it by its id."""

LOOK_EVERY_S = 0.2
"""Between looks at a change that is waited for."""

TRIES_CODE: tuple[type[Command[Any]], ...] = (ApplyPipeline, PlanPipeline, RetryPipeline, RollbackPipeline)
"""Commands that try user code before they answer. Each entry may take seconds to import."""

TRIAL_DEADLINE_S = 90.0
TRIAL_ATTEMPT_S = 30.0

UNDER_WAY = frozenset({OperationState.RUNNING, OperationState.ROLLING_BACK, ApplyState.RUNNING})

Change = OperationAnswer | ApplyView
"""Answer to a command that changes something: its progress."""

AnswerT = TypeVar("AnswerT", bound=Model)


class Coordinator:
    """Sends commands over the bus."""

    def __init__(self, bus: Bus, *, deadline_s: float = DEADLINE_S) -> None:
        self._bus = bus
        self._deadline_s = deadline_s

    @property
    def connected(self) -> bool:
        """True if there is a connection to the hub."""
        return self._bus.connection.is_connected

    async def ask(self, command: Command[AnswerT]) -> AnswerT:
        """Return the answer. A change is asked for in the name of the request's token, whatever it says.

        Raises `TowpathError`.
        """
        if not is_looking(type(command)):
            command = command.model_copy(update={"asked_by": asked_by.get()})
        deadline_s, attempt_s = self._deadline_s, ATTEMPT_S
        if isinstance(command, TRIES_CODE):
            deadline_s, attempt_s = max(deadline_s, TRIAL_DEADLINE_S), TRIAL_ATTEMPT_S
        try:
            async with asyncio.timeout(deadline_s + attempt_s):
                return await self._bus.request(command, deadline_s=deadline_s, attempt_s=attempt_s)
        except (NatsError, OSError, TimeoutError) as error:
            raise TowpathError(ErrorCode.UNREACHABLE, f"no connection to the mesh: {error}") from error

    async def ending(self, command: Command[Any], change: Change, *, wait_s: float) -> Change:
        """Return the change when it has ended, or as it is after `wait_s` seconds. Raises `TowpathError`."""
        end = asyncio.get_running_loop().time() + wait_s
        while change.state in UNDER_WAY and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(LOOK_EVERY_S, left))
            with untraced():
                change = await self._now(command, change)
        return change

    async def _now(self, command: Command[Any], change: Change) -> Change:
        if isinstance(change, OperationAnswer):
            view = await self.ask(ShowOperation(operation=change.operation))
            return change.model_copy(update={"state": view.state, "note": view.note})
        try:
            newest = (await self.ask(ShowPipeline(pipeline=change.pipeline))).apply
        except TowpathError as error:
            if error.detail.code is ErrorCode.UNKNOWN_PIPELINE and isinstance(command, DeletePipeline):
                return change.model_copy(update={"state": ApplyState.COMPLETED})
            raise
        if newest.apply != change.apply:
            raise TowpathError(
                ErrorCode.BUSY, f"apply {newest.apply} of this pipeline came after {change.apply}"
            )
        return newest
