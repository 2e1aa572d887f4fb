"""Wait in a test until a condition holds, with one time limit for all tests."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

# Longer than any condition takes: an engine needed a minute to start beside others. It ends endless waits,
# and judges no speed.
WITHIN_S = 180.0

POLL_S = 0.02  # Short enough to cost a test little, long enough to leave the processor to others.


def until(condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Return the first true result of a condition. Raises `AssertionError` if none comes within the limit."""
    end = time.monotonic() + within_s
    while not (result := condition()):
        assert time.monotonic() < end, _missing(condition, within_s)
        time.sleep(POLL_S)
    return result


async def eventually(condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Do the same while the event loop goes on. The condition may be an async function."""
    try:
        async with asyncio.timeout(within_s) as limit:
            while not (result := await _answer(condition, limit)):
                # Python 3.11's `wait_for` forgets a cancellation that meets its own limit.
                if limit.expired():
                    raise TimeoutError
                await asyncio.sleep(POLL_S)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise AssertionError(_missing(condition, within_s)) from error
    return result


async def _answer(condition: Callable[[], Any], limit: asyncio.Timeout) -> Any:
    """Return what the condition returns, and None if a server did not answer it in time."""
    try:
        answer = condition()
        return await answer if inspect.isawaitable(answer) else answer
    except TimeoutError:
        if limit.expired():
            raise
        return None


def _missing(condition: Callable[[], Any], within_s: float) -> str:
    """Name the condition by its source: a lambda's name says nothing."""
    try:
        source = " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        source = repr(condition)
    return f"did not come about within {within_s:g} s: {source}"
