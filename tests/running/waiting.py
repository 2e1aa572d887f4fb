"""Wait for a condition, with one generous limit: a test that waits long is slow, not wrong."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

WITHIN_S = 60.0
"""Long enough for a busy machine to do what an idle one does in a second or two."""

EVERY_S = 0.02


def until(condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Return what the condition answers, once that is true.

    Raises `AssertionError` if it is not within the limit.
    """
    end = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {within_s:g} s: {condition}"
        time.sleep(EVERY_S)
    return found


async def eventually(condition: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    """Return what the condition answers, once that is true. It may be a coroutine function.

    Raises `AssertionError` if it is not within the limit.
    """
    end = time.monotonic() + within_s
    while not (found := await answer(condition)):
        assert time.monotonic() < end, f"not within {within_s:g} s: {condition}"
        await asyncio.sleep(EVERY_S)
    return found


async def answer(condition: Callable[[], Any]) -> Any:
    """What a function, or a coroutine function, returns."""
    found = condition()
    return await found if inspect.isawaitable(found) else found
