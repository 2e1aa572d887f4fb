"""How long a question waits for a registry that restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from towpath.contracts.errors import ErrorCode, TowpathError

QUERY_S = 10.0

T = TypeVar("T")


async def in_time(call: Awaitable[T]) -> T:
    """What the registry answers. Raises `TowpathError` (unreachable) when it does not in time."""
    try:
        async with asyncio.timeout(QUERY_S):
            return await call
    except TimeoutError as error:
        raise TowpathError(ErrorCode.UNREACHABLE, "the registry does not answer") from error
