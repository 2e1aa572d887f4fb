"""The checks `serials` and `results`: the source's windows are forwarded until the target's can follow.

Both runs publish into the shadow stream. The forwarded results, and the place where the output changes
hands, are a fold over that stream in its order. So a monitor that replaces a dead one decides the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.data_plane import ResultSubject, shadow_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.migration import AmendedResult, Role
from towpath.contracts.monitor import Consistent, Watch
from towpath.contracts.site_commands import RecomputeWindow
from towpath.monitor.forwarding import Forwarding
from towpath.monitor.progress import RunProgress
from towpath.monitor.windows import WindowResult, Windows
from towpath.streams.failures import Fenced, Unpublished
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import StoredMessage, newest_before
from towpath.synchrony.by_results import ByResults
from towpath.synchrony.cut import Cut
from towpath.tasks import end

log = logging.getLogger(__name__)

POLL_S = 0.05
"""Between looks at the shadow. Forwarding makes a result this much older."""

REPORT_S = 0.5
"""Between reports of the agents. They tell that a window is complete, and that the agents live."""

IDLE_S = 2.0
"""An input is idle when it was silent for this long, which is longer than a report's age."""

RECOMPUTE_S = 60.0
"""Deadline for the target to compute one window again, in an engine that may be busy with the job."""

ATTEMPT_S = 15.0
"""After this the command is sent again, because the agent may have restarted."""


class WindowCheck:
    """Forwards, folds and decides."""

    def __init__(self, bus: Bus, operation: str, watch: Watch) -> None:
        if watch.interim is None:
            raise TowpathError(
                ErrorCode.INVALID,
                "the monitor must know the epoch under which it forwards results",
                field="watch.interim",
            )
        self.awaited = asyncio.Event()
        self._bus = bus
        self._operation = operation
        self._watch = watch
        self._progress = RunProgress(bus, operation, watch)
        self._shadow = Follower(bus.connection, watch.output.site, shadow_stream(watch.job))
        self._forwarding = Forwarding(bus.connection, watch, watch.interim)
        self._windows: Windows[StoredMessage] = _windows(watch, None)
        self._origins = {watch.source_epoch: Role.SOURCE, watch.target_epoch: Role.TARGET}
        """Epoch → the run that publishes under it."""
        self._forwarded = 0
        self._trouble = ""
        self._idle_since: float | None = None

    async def run(self, outcome: asyncio.Future[Consistent]) -> None:
        """Forward the source's results, decide when the target's can follow, and set the outcome."""
        reporting = asyncio.create_task(self._report(outcome))
        try:
            self._windows = _windows(self._watch, await self._begun())
            await self._forward_until_settled()
            found = await self._found()
        except (Fenced, StreamGoneError) as ended:
            raise TowpathError(ErrorCode.FAILED, f"the comparison has ended: {ended}") from ended
        finally:
            await end([reporting])
            await self._forwarding.close()
        if not outcome.done():
            outcome.set_result(found)

    async def _begun(self) -> int | None:
        """Return the end of the source's last window in the output. The shadow continues from there.

        The output took the monitor's epoch before, so nothing is added under an older one.
        """
        watch, before = self._watch, self._watch.interim or 0
        while True:
            try:
                newest = await newest_before(
                    self._bus.connection, watch.output.site, watch.output.stream, before
                )
            except (TimeoutError, NatsError, OSError) as error:
                self._trouble = f"{watch.output.site} does not answer: {error}"
                await asyncio.sleep(POLL_S)
            else:
                return None if newest is None else _window_result(newest, Role.SOURCE).through

    async def _report(self, outcome: asyncio.Future[Consistent]) -> None:
        """Ask the agents, once someone waits for the outcome.

        Forwarding goes on when one of them is silent. The migration will then be rolled back, and until then
        the source's results must still flow.
        """
        await self.awaited.wait()
        while True:
            try:
                await self._progress.ask()
            except TowpathError as error:
                if not outcome.done():
                    outcome.set_exception(error)
                return
            await asyncio.sleep(REPORT_S)

    async def _forward_until_settled(self) -> None:
        while True:
            reported = self._committed()
            try:
                await self._take_what_is_new()
            except (TimeoutError, Unpublished, NatsError, OSError) as error:
                self._trouble = f"{self._watch.output.site} does not answer: {error}"
            else:
                self._trouble = ""
                # The reports are older than what was read, so all that they call committed is in the shadow.
                if self._windows.settled and self._is_complete(reported):
                    return
                if self._is_idle(reported):
                    return
            await asyncio.sleep(POLL_S)

    def _committed(self) -> dict[Role, int]:
        """Return the serial number that each operator has committed, by the newest reports."""
        name = self._watch.inputs[0].name
        reports = {Role.SOURCE: self._progress.source, Role.TARGET: self._progress.target}
        return {role: status.serials.get(name, 0) for role, status in reports.items() if status is not None}

    def _is_complete(self, committed: dict[Role, int]) -> bool:
        return all(committed.get(role, 0) >= n for role, n in self._windows.unfinished().items())

    def _is_idle(self, committed: dict[Role, int]) -> bool:
        """True if nothing has come in for a while.

        Both stand at the same serial number, and neither has a window to close. Whatever comes next is the
        target's.
        """
        loop = asyncio.get_running_loop()
        level = committed if len(set(committed.values())) == 1 and len(committed) == len(Role) else None
        if self._watch.check is not ConsistencyCheck.SERIALS or not self._windows.is_silent or level is None:
            self._idle_since = None
            return False
        if self._idle_since is None:
            self._idle_since = loop.time()
        return loop.time() - self._idle_since > IDLE_S and self._is_complete(committed)

    async def _take_what_is_new(self) -> None:
        await self._forwarding.flush()
        while True:
            for message in await self._shadow.read():
                self._take(message)
            await self._forwarding.flush()
            if self._shadow.at_end:
                self._forwarding.is_level()
                return

    def _take(self, message: StoredMessage) -> None:
        subject = ResultSubject.of(message.subject)
        origin = self._origins.get(subject.epoch)
        if origin is None:
            return
        if subject.is_rejected:
            self._forwarding.add([message], rejected=True)
        else:
            forwarded = self._windows.take(_window_result(message, origin))
            self._forwarded += len(forwarded)
            self._forwarding.add(result.body for result in forwarded)

    async def _found(self) -> Consistent:
        decision = self._windows.synchroniser.synchronised
        if decision is None:  # Without results, nothing can be inconsistent.
            return Consistent(position=self._shadow.last, offset=0, forwarded=self._forwarded)
        amended: list[AmendedResult] = []
        for amend in decision.amended:
            amended += await self._recompute(amend.after, amend.through)
        return Consistent(
            position=self._windows.position,
            amended=amended,
            offset=decision.offset,
            forwarded=self._forwarded,
        )

    async def _recompute(self, after: int, through: int) -> list[AmendedResult]:
        command = RecomputeWindow(
            site=self._watch.target,
            operation=self._operation,
            job=self._watch.job,
            after=after,
            through=through,
        )
        log.info("%s: %s < serial <= %s was computed again", self._operation, after, through)
        try:
            answer = await self._bus.request(command, deadline_s=RECOMPUTE_S, attempt_s=ATTEMPT_S)
        except (NatsError, OSError) as error:
            raise TowpathError(
                ErrorCode.UNREACHABLE, f"{self._watch.target} cannot be asked: {error}"
            ) from error
        return answer.results

    def standing(self) -> str:
        """Return how far the decision has come, for people."""
        decision = self._windows.synchroniser.synchronised
        if decision is None:
            reached = "the results of the two are too far apart"
        else:
            reached = f"decided at serial {decision.cut}; the last windows are incomplete"
        parts = [self._trouble, reached, self._progress.standing(), f"{self._forwarded} results forwarded"]
        return "; ".join(part for part in parts if part)


def _windows(watch: Watch, begun: int | None) -> Windows[StoredMessage]:
    if watch.check is ConsistencyCheck.RESULTS:
        return Windows(ByResults(watch.factor, begun), begun)
    return Windows(Cut(begun=begun), begun)


def _window_result(message: StoredMessage, origin: Role) -> WindowResult[StoredMessage]:
    """Return a message as a result. Raises `TowpathError` if it lacks its window's serial numbers."""
    result: Any = None
    with contextlib.suppress(ValueError):
        result = json.loads(message.body)
    after, through = (result.get(n) if isinstance(result, dict) else None for n in ("after", "through"))
    if not isinstance(after, int) or not isinstance(through, int):
        raise TowpathError(
            ErrorCode.FAILED,
            "a result does not say which serial numbers its window covers",
            field="after" if not isinstance(after, int) else "through",
            value=message.identity,
            allowed="results of processing_window",
        )
    return WindowResult(origin, after, through, message.serial, message.identity, message)
