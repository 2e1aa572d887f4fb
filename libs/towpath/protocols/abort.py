"""Give up the step that is under way when a user aborts the operation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.tasks import end

T = TypeVar("T")

ABORTED = "aborted by request"
"""The reason of a step that failed because its operation was to be rolled back."""


def aborted() -> TowpathError:
    """Return the failure of a step that was given up."""
    return TowpathError(ErrorCode.FAILED, ABORTED)


async def unless(abort: asyncio.Event, asking: Coroutine[Any, Any, T]) -> T:
    """Return the answer. Raises `TowpathError` when the abort comes first.

    The command may then have been executed or not, as after a deadline.
    """
    answer, stopped = asyncio.create_task(asking), asyncio.create_task(abort.wait())
    try:
        await asyncio.wait((answer, stopped), return_when=asyncio.FIRST_COMPLETED)
        # An answer that is there counts: the step is done for certain.
        if not answer.done():
            raise aborted()
        return answer.result()
    finally:
        await end((answer, stopped))
