"""End tasks, finish work in spite of cancellation, and wait for conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

CANCEL_AGAIN_S = 0.5
"""A task that goes on is cancelled again after this time."""


class NotInTime(TimeoutError):
    """A condition did not become true in time."""


async def until(condition: Callable[[], Awaitable[T | None]], within_s: float, every_s: float) -> T:
    """Ask until the condition's answer is true, and return that answer. Raises `NotInTime`.

    Pauses for `every_s` between two questions. The condition is asked at least once, and once after the time
    is over.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while not (answer := await condition()):
        if loop.time() >= end:
            raise NotInTime(f"not within {within_s:g} s")
        await pause(every_s)
    return answer


def wait_until(condition: Callable[[], T | None], within_s: float, every_s: float) -> T:
    """Do the same as `until` in a thread that may block."""
    end = time.monotonic() + within_s
    while not (answer := condition()):
        if time.monotonic() >= end:
            raise NotInTime(f"not within {within_s:g} s")
        time.sleep(every_s)
    return answer


async def end(tasks: Iterable[asyncio.Future[Any] | None]) -> None:
    """Cancel tasks and return when all have ended, whatever their outcome.

    One cancellation is not enough. Up to Python 3.11 `asyncio.wait_for`, which clients of NATS and Redis
    use, forgets a cancellation that meets its result, and a task with a loop would never end.
    """
    given = {task for task in tasks if task is not None}
    while left := {task for task in given if not task.done()}:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*given, return_exceptions=True)


async def one_is_set(*events: asyncio.Event) -> None:
    """Wait until one of the events is set."""
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(waiting)


async def unless(ended: Coroutine[Any, Any, Any], work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`. If `ended` returns first, cancel the work and return None.

    A result that is there counts, even if both have come.
    """
    working, ending = asyncio.create_task(work), asyncio.create_task(ended)
    try:
        await asyncio.wait((working, ending), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await end((working, ending))


async def to_the_end(work: Awaitable[T]) -> T:
    """Finish `work` even when cancelled, then pass the cancellation on.

    For work that must not stay half done, and for threads, which cannot be cancelled: the next task would
    find them still changing things.
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


async def pause(seconds: float) -> None:
    """Sleep between two rounds of a loop. It ends the loop of a task that was cancelled and went on."""
    check_cancelled()
    await asyncio.sleep(seconds)


def check_cancelled() -> None:
    """Raise `CancelledError` if the present task was cancelled and went on. Loops call this to end."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
