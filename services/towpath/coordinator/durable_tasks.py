"""Run what is durable, each in a task of its own: operations and applies.

What such a task does is kept in the registry. So a task may be cancelled at any line: the next coordinator
starts it again, and it goes on from what is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.protocols.runner import Superseded
from towpath.tasks import end

log = logging.getLogger(__name__)

Outcome = TypeVar("Outcome")

AGAIN_AFTER_S = 5.0
"""After an unforeseen error: what caused it may have passed by then."""


class DurableTasks(Generic[Outcome]):
    """At most one task for each identifier. It belongs to what it runs, not to a caller who waits for it."""

    def __init__(
        self,
        kind: str,
        run: Callable[[str], Awaitable[Outcome]],
        over: Callable[[str], object] = lambda identifier: None,
    ) -> None:
        """`run` takes what has this identifier to its end from where it stands. `over` hears of its end."""
        self._kind = kind
        self._run = run
        self._over = over
        self._tasks: dict[str, asyncio.Task[Outcome]] = {}

    def start(self, identifier: str) -> asyncio.Task[Outcome]:
        """The task that runs it; it is started unless it is under way. Wait for it under a shield."""
        task = self._tasks.get(identifier)
        if task is None:
            task = asyncio.create_task(self._to_the_end(identifier), name=f"{self._kind} {identifier}")
            self._tasks[identifier] = task
            task.add_done_callback(lambda done: self._ended(identifier, done))
        return task

    async def _to_the_end(self, identifier: str) -> Outcome:
        """Run, and after an unforeseen error run again: until it has ended, it holds a lock.

        Raises `TowpathError` (unreachable) when another coordinator has taken over.
        """
        while True:
            try:
                return await self._run(identifier)
            except Superseded as error:
                raise TowpathError(
                    ErrorCode.UNREACHABLE, f"{self._kind} {identifier} is run by another coordinator"
                ) from error
            except Exception:
                log.exception(
                    "%s %s was interrupted and goes on in %g s", self._kind, identifier, AGAIN_AFTER_S
                )
                await asyncio.sleep(AGAIN_AFTER_S)

    def _ended(self, identifier: str, task: asyncio.Task[Outcome]) -> None:
        self._tasks.pop(identifier, None)
        self._over(identifier)
        if not task.cancelled() and task.exception() is not None:
            log.warning("%s %s: %s", self._kind, identifier, task.exception())

    async def stop(self) -> None:
        """Leave everything where it is: the next coordinator continues it."""
        await end(self._tasks.values())
