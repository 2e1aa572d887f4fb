"""Tries for ever, with pauses that grow: both directions of a bridge live in this."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from typing import Any

import nats.errors

from towpath.contracts.errors import TowpathError

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0

_EXPECTED = (OSError, TimeoutError, nats.errors.Error, TowpathError)
"""What networks and brokers do. Anything else is a mistake of ours: it is tried again as well."""


def is_cancelled() -> bool:
    """Whether the task at work was cancelled, even if something it called swallowed that: nats-py's requests
    may, when the answer comes at the same moment. To be asked by loops that have no other end."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Endeavour:
    """Something that is to go on for ever, and that others may end at any time."""

    def __init__(self, what: str, attempt: Callable[[Endeavour], Coroutine[Any, Any, None]]) -> None:
        self.what = what
        self.trouble: str | None = f"{what}: not connected yet"
        """Why it does not go on at the moment; None when it does."""
        self._attempt = attempt
        self._pause_s = FIRST_PAUSE_S

    def goes_on(self) -> None:
        """To be called by the attempt when everything it needs is there."""
        if self.trouble is not None:
            log.info("%s: goes on", self.what)
        self.trouble, self._pause_s = None, FIRST_PAUSE_S

    async def run(self) -> None:
        """Attempt again and again, until cancelled."""
        while not is_cancelled():
            # A task of its own: a task group that fails leaves a mark of cancellation on its task.
            try:
                await asyncio.create_task(self._attempt(self), name=self.what)
            except Exception as error:
                self._report(error)
            # Jitter: the bridges of many sites shall not come back all at the same moment.
            await asyncio.sleep(self._pause_s * random.uniform(0.5, 1.0))
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)

    def _report(self, error: Exception) -> None:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        why = str(error) or type(error).__name__
        if not isinstance(error, _EXPECTED):
            log.error("%s", self.what, exc_info=error)
            why = f"{type(error).__name__}: {why}"
        trouble = f"{self.what}: {why}"
        if trouble != self.trouble:
            log.warning("%s", trouble)
        self.trouble = trouble
