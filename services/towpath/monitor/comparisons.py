"""All comparisons under way, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Protocol

from towpath.bus import Bus
from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.monitor import Consistent, Watch
from towpath.monitor.identity_check import IdentityCheck
from towpath.monitor.window_check import WindowCheck
from towpath.tasks import end

log = logging.getLogger(__name__)

REMEMBERED_STOPS = 1000
"""Operations whose late commands are recognised. They come within seconds of the stop."""


class Check(Protocol):
    """A way to compare two runs of one job."""

    awaited: asyncio.Event
    """Set when someone waits for the outcome."""

    async def run(self, outcome: asyncio.Future[Consistent]) -> None:
        """Compare until the runs are consistent, and set the outcome.

        Raises `TowpathError` when they cannot become consistent. It may set an exception as outcome before
        that, if it still has something to do.
        """
        ...

    def standing(self) -> str:
        """Return how far the two runs are apart now, for people."""
        ...


class Comparison:
    """A running check. `Comparisons` owns it."""

    def __init__(self, operation: str, check: Check) -> None:
        self._check = check
        self._outcome: asyncio.Future[Consistent] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(check.run(self._outcome), name=f"compare {operation}")
        self._task.add_done_callback(_log_end)
        self._end_s: float | None = None
        """The deadline, counted from the first request for the outcome.

        A repeated request means that the answer was lost, and gets it now."""

    async def consistent(self, within_s: float) -> Consistent:
        """Wait until the runs are consistent.

        Raises `TowpathError` when they differ, when they are not consistent in time, or when the comparison
        was stopped.
        """
        self._check.awaited.set()
        loop = asyncio.get_running_loop()
        self._end_s = self._end_s or loop.time() + within_s
        left_s = max(0.0, self._end_s - loop.time())
        ends = {self._task, self._outcome}
        await asyncio.wait(ends, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if self._outcome.done():
            return self._outcome.result()
        if not self._task.done():
            raise TowpathError(
                ErrorCode.FAILED,
                f"the runs were not consistent within {within_s:g} s: {self._check.standing()}",
            )
        if self._task.cancelled():
            raise _was_stopped()
        self._task.result()  # Raises the check's error.
        raise AssertionError("a check ends with an outcome")

    @property
    def broke_off(self) -> bool:
        """True if it has ended because of an error that may pass, such as a site that did not answer."""
        if not self._task.done() or self._task.cancelled() or self._outcome.done():
            return False
        error = self._task.exception()
        return isinstance(error, TowpathError) and error.detail.retryable

    async def stop(self) -> None:
        """Stop comparing."""
        await end([self._task])


class Comparisons:
    """The comparisons by operation. Nothing is durable: a repeated command begins a comparison again."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._by_operation: dict[str, Comparison] = {}
        self._stopped: deque[str] = deque(maxlen=REMEMBERED_STOPS)

    def ensure(self, operation: str, watch: Watch) -> Comparison:
        """Return the operation's comparison. Begin it if there is none, or if the last one has broken off.

        Raises `TowpathError` when it was stopped, because the command is then a late repetition.
        """
        if operation in self._stopped:
            raise _was_stopped()
        known = self._by_operation.get(operation)
        if known is None or known.broke_off:
            log.info(
                "%s: %s of %s at %s and %s", operation, watch.check, watch.job, watch.source, watch.target
            )
            self._by_operation[operation] = Comparison(operation, _check(self._bus, operation, watch))
        return self._by_operation[operation]

    async def stop(self, operation: str) -> bool:
        """End the operation's comparison. Return False if there was none."""
        self._stopped.append(operation)
        comparison = self._by_operation.pop(operation, None)
        if comparison is None:
            return False
        await comparison.stop()
        return True

    async def close(self) -> None:
        """End all comparisons."""
        await asyncio.gather(*(self.stop(operation) for operation in list(self._by_operation)))


def _was_stopped() -> TowpathError:
    return TowpathError(ErrorCode.FAILED, "the comparison was stopped")


def _check(bus: Bus, operation: str, watch: Watch) -> Check:
    if watch.check is ConsistencyCheck.IDENTITY:
        return IdentityCheck(bus, operation, watch)
    return WindowCheck(bus, operation, watch)


def _log_end(task: asyncio.Task[None]) -> None:
    """Log how a comparison ended, also when no one waits for it any more."""
    if task.cancelled():
        log.info("%s: stopped", task.get_name())
    elif (error := task.exception()) is None:
        log.info("%s: consistent", task.get_name())
    else:
        log.warning("%s: %s", task.get_name(), error, exc_info=not isinstance(error, TowpathError))
