"""Try until cancelled, with growing pauses. Both directions of a bridge run in this."""

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
"""Failures of networks and brokers. Any other is a mistake in Towpath, and is tried again as well."""


def is_cancelled() -> bool:
    """True if the task at work was cancelled, even if a call swallowed that.

    nats-py's requests may swallow it when the answer comes at the same moment. Loops that have no other end
    must ask this.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Endeavour:
    """Work that goes on until cancelled. It may be cancelled at any time."""

    def __init__(self, what: str, attempt: Callable[[Endeavour], Coroutine[Any, Any, None]]) -> None:
        self.what = what
        self.trouble: str | None = f"{what}: not connected yet"
        """Reason why it does not go on now. None when it does."""
        self._attempt = attempt
        self._pause_s = FIRST_PAUSE_S

    def goes_on(self) -> None:
        """Note that everything works. The attempt calls this when it has all it needs."""
        if self.trouble is not None:
            log.info("%s: connected again", self.what)
        self.trouble, self._pause_s = None, FIRST_PAUSE_S

    async def run(self) -> None:
        """Attempt again and again, until cancelled."""
        while not is_cancelled():
            # Run it in a task of its own, because a failing task group leaves a mark of cancellation on its
            # task.
            try:
                await asyncio.create_task(self._attempt(self), name=self.what)
            except Exception as error:
                self._report(error)
            # Jitter keeps the bridges of many sites from returning all at the same moment.
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
