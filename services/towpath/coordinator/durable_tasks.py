"""Run operations and applies, each in a task of its own.

The registry keeps the progress of such a task. So a task may be cancelled at any line: the next coordinator
starts it again, and it goes on from there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from towpath.bus.deadlines import keep_no_deadline
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.protocols.runner import Superseded
from towpath.tasks import end

log = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")

AGAIN_AFTER_S = 5.0
"""Pause after an unforeseen error: its cause may have passed by then."""


class DurableTasks(Generic[Outcome]):
    """Keeps at most one task for each identifier. No caller that waits for a task can cancel it."""

    def __init__(
        self,
        kind: str,
        run: Callable[[str], Awaitable[Outcome]],
        over: Callable[[str], object] = lambda identifier: None,
    ) -> None:
        """`run` takes an operation or apply to its end from any point. `over` is called at its end."""
        self._kind = kind
        self._run = run
        self._over = over
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}

    def start(self, identifier: str) -> asyncio.Task[Outcome]:
        """Return the task that runs it, and start it unless it is under way. Wait for it under a shield."""
        task = self._tasks.get(identifier)
        if task is None or task.done():
            task = asyncio.create_task(self._to_the_end(identifier), name=f"{self._kind} {identifier}")
            self._tasks[identifier] = task
            task.add_done_callback(lambda done: self._ended(identifier, done))
        return task

    async def _to_the_end(self, identifier: str) -> Outcome:
        """Run, and run again after an unforeseen error, because it holds a lock until it has ended.

        After such an error, a write whose outcome was not known may show up and look like that of another
        coordinator: only the second time is it one. Raises `TowpathError` (unreachable) when another
        coordinator has taken over.
        """
        keep_no_deadline()  # What is accepted is done, however long its sender waits.
        was_superseded = False
        while True:
            try:
                return await self._run(identifier)
            except Superseded as error:
                if was_superseded:
                    raise TowpathError(
                        ErrorCode.UNREACHABLE, f"{self._kind} {identifier} is run by another coordinator"
                    ) from error
                was_superseded = True
                log.warning("%s %s: its journal is not as it was left", self._kind, identifier)
            except Exception:
                was_superseded = False
                log.exception(
                    "%s %s was interrupted and goes on in %g s", self._kind, identifier, AGAIN_AFTER_S
                )
                await asyncio.sleep(AGAIN_AFTER_S)

    def _ended(self, identifier: str, task: asyncio.Task[Outcome]) -> None:
        if self._tasks.get(identifier) is task:
            del self._tasks[identifier]
        self._over(identifier)
        if not task.cancelled() and task.exception() is not None:
            log.warning("%s %s: %s", self._kind, identifier, task.exception())

    async def stop(self) -> None:
        """Stop all tasks. The next coordinator continues them."""
        await end(self._tasks.values())
