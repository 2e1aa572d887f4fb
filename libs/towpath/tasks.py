"""How tasks end: each has an owner that cancels it and waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

CANCEL_AGAIN_S = 0.5
"""Before a task that goes on is cancelled again."""


async def end(tasks: Iterable[asyncio.Future[Any] | None]) -> None:
    """Cancel tasks, and return when all have ended. Their outcome is not looked at.

    Not once: up to Python 3.11 `asyncio.wait_for`, which clients of NATS and Redis use, forgets a
    cancellation that meets its result, and a task in a loop would go on for ever.
    """
    given = {task for task in tasks if task is not None}
    while left := {task for task in given if not task.done()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*given, return_exceptions=True)


async def to_the_end(work: Awaitable[T]) -> T:
    """Finish `work` even when cancelled, however often, and pass the cancellation on then.

    For what must not be left half done, and for threads, which cannot be cancelled: a successor would find
    things changed under its hands.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as once:
            cancelled = once
    if cancelled is None:
        return task.result()
    await asyncio.gather(task, return_exceptions=True)
    raise cancelled


def check_cancelled() -> None:
    """For a loop to end all the same. Raises `CancelledError` if its task was cancelled and went on."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
