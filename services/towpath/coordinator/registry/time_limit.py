"""Ask the registry with a time limit, because it may be restarting."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from towpath.contracts.errors import ErrorCode, TowpathError

QUERY_S = 10.0

T = TypeVar("T")


async def in_time(call: Awaitable[T]) -> T:
    """Return the registry's answer. Raises `TowpathError` (unreachable) when it does not come in time."""
    try:
        async with asyncio.timeout(QUERY_S):
            return await call
    except TimeoutError as error:
        raise TowpathError(ErrorCode.UNREACHABLE, "the registry does not answer") from error
