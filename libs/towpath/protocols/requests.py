"""Requests about an operation that is under way: roll it back, or finish it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from towpath import tasks
from towpath.contracts.errors import ErrorCode, TowpathError

T = TypeVar("T")

ABORTED = "aborted by request"
"""The reason of a step that failed because its operation was to be rolled back."""


@dataclass(frozen=True)
class Requests:
    """Requests about one operation. Who sets one must keep it: the next coordinator has to set it, too."""

    abort: asyncio.Event = field(default_factory=asyncio.Event)
    """Roll it back, without waiting for the step that is under way, unless only going forward is safe."""
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    """Do not hold, or no longer."""
    holding: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by the runner while it holds."""

    async def until_finish(self, within_s: float | None) -> None:
        """Return when the operation is to go on: on request, or after a time.

        Raises `TowpathError` when it is to be rolled back.
        """
        self.holding.set()
        try:
            async with asyncio.timeout(within_s):
                await unless(self.abort, self.finish.wait())
        except TimeoutError:
            return
        finally:
            self.holding.clear()


def aborted() -> TowpathError:
    """Return the failure of a step that was given up."""
    return TowpathError(ErrorCode.FAILED, ABORTED)


async def unless(abort: asyncio.Event, asking: Coroutine[Any, Any, T]) -> T:
    """Return the answer, which is not None. Raises `TowpathError` when the abort comes first.

    The command may then have been executed or not, as after a deadline.
    """
    answer = await tasks.unless(abort.wait(), asking)
    if answer is None:
        raise aborted()
    return answer
