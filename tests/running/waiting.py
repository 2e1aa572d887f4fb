"""Wait for a condition, with one generous limit: a test that waits long is slow, not wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

WITHIN_S = 60.0
"""Long enough for a busy machine to do what an idle one does in a second or two."""

EVERY_S = 0.02


def until(condition: Callable[[], object], within_s: float = WITHIN_S) -> None:
    """Return once the condition holds. Raises `AssertionError` if it does not within the limit."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"not within {within_s:g} s: {condition}"
        time.sleep(EVERY_S)


async def eventually(condition: Callable[[], Awaitable[object]], within_s: float = WITHIN_S) -> None:
    """Return once the condition holds. Raises `AssertionError` if it does not within the limit."""
    end = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < end, f"not within {within_s:g} s: {condition}"
        await asyncio.sleep(EVERY_S)
