"""The check `identity`: both runs publish equal results under equal identities, and the target catches up.

The source publishes into the output by itself. The target's results wait in the shadow stream. This check
publishes nothing, and another monitor would find all its decisions again in the streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.data_plane import ResultSubject, shadow_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.monitor import Consistent, Watch
from towpath.monitor.pairs import Pairs, Suspicion, difference
from towpath.monitor.progress import RunProgress
from towpath.streams.follower import Follower, StreamGoneError
from towpath.streams.pages import StoredMessage, page

log = logging.getLogger(__name__)

ROUND_S = 0.2
"""Between rounds. Each asks both agents, and reads what is new in both streams."""


LEVEL_TRIGGERS = 2
"""Trigger intervals in which both runs, once the target has caught up, must become level in results too.

Results follow the watermark, which is a micro-batch late. A target that takes over while it is behind owes
the next results for one more interval. So does one that is ahead, after some that came early. The wait has
a limit, because results that an operator emits repeatedly have other identities at the target."""

LEVEL_LEAST_S = 0.5


class IdentityCheck:
    """Compares the output with the shadow, result by result."""

    def __init__(self, bus: Bus, operation: str, watch: Watch) -> None:
        self.awaited = asyncio.Event()
        self._watch = watch
        self._connection = bus.connection
        self._progress = RunProgress(bus, operation, watch)
        self._output = self._follower(watch.output.stream, watch.output_serial)
        self._shadow = self._follower(shadow_stream(watch.job), 0)
        self._trouble = ""
        self._compared = 0
        self._level_until: float | None = None
        """Time at which the target is accepted as it is. None while it has not caught up."""
        self._suspicions: deque[Suspicion] = deque()
        """Pairs that have yet to be compared in full."""

    def _follower(self, stream: str, after: int) -> Follower:
        return Follower(self._connection, self._watch.output.site, stream, after=after)

    async def run(self, outcome: asyncio.Future[Consistent]) -> None:
        """Compare in rounds until the target can stand for the source, and set the outcome."""
        pairs = Pairs()
        loop = asyncio.get_running_loop()
        while True:
            next_s = loop.time() + ROUND_S
            if await self._round(pairs):
                break
            await asyncio.sleep(max(0.0, next_s - loop.time()))
        position = pairs.target_covered(self._shadow.last)
        outcome.set_result(Consistent(position=position, compared=pairs.compared))

    async def _round(self, pairs: Pairs) -> bool:
        """Compare what is new. Return True if the target has caught up and everything was compared."""
        if self.awaited.is_set():
            # Asked before reading, so that what they report is already in the streams.
            await self._progress.ask()
        try:
            await self._compare(pairs)
        except StreamGoneError as gone:
            raise TowpathError(ErrorCode.FAILED, f"the comparison has ended: {gone}") from gone
        except (TimeoutError, NatsError, OSError) as error:
            self._trouble = f"{self._watch.output.site} does not answer: {error}"
            return False
        self._trouble, self._compared = "", pairs.compared
        return self.awaited.is_set() and self._stands_for_the_source(pairs)

    def _stands_for_the_source(self, pairs: Pairs) -> bool:
        """True if the target has caught up in events and, if possible, in results."""
        if not self._progress.caught_up:
            self._level_until = None
            return False
        now = asyncio.get_running_loop().time()
        if self._level_until is None:
            self._level_until = now + max(LEVEL_TRIGGERS * self._watch.trigger_s, LEVEL_LEAST_S)
        return pairs.level or now >= self._level_until

    async def _compare(self, pairs: Pairs) -> None:
        while True:
            for message in await self._output.read():
                if self._is_of(message, self._watch.source_epoch):
                    self._suspect(pairs.from_source(message.identity, message.serial, message.body))
            for message in await self._shadow.read():
                if self._is_of(message, self._watch.target_epoch):
                    self._suspect(pairs.from_target(message.identity, message.serial, message.body))
            while self._suspicions:
                await self._judge(self._suspicions[0])
                self._suspicions.popleft()
            if self._output.at_end and self._shadow.at_end:
                return

    def _suspect(self, suspicion: Suspicion | None) -> None:
        if suspicion is not None:
            self._suspicions.append(suspicion)

    @staticmethod
    def _is_of(message: StoredMessage, epoch: int) -> bool:
        """True if the message is a result of this epoch."""
        subject = ResultSubject.of(message.subject)
        return subject.epoch == epoch and not subject.is_rejected

    async def _judge(self, suspicion: Suspicion) -> None:
        """Compare two results whose digests differ. Raises `TowpathError` if their contents differ, too."""
        source = await self._body(self._output, suspicion.source_serial)
        target = await self._body(self._shadow, suspicion.target_serial)
        found = difference(source, target) if source is not None and target is not None else None
        if found is None:
            return
        _, _, name = suspicion.identity.partition("/")
        raise TowpathError(
            ErrorCode.FAILED,
            f"result {name} is {found.source!r} at {self._watch.source} "
            f"and {found.target!r} at {self._watch.target}",
            field=found.path or None,
            value=found.target,
            allowed=str(found.source),
        )

    async def _body(self, stream: Follower, serial: int) -> bytes | None:
        """Return the body of a message that was read before. None if it has expired since."""
        messages = await page(self._connection, stream.site, stream.stream, serial, 1)
        return messages[0].body if messages and messages[0].serial == serial else None

    def standing(self) -> str:
        """Return the distance of the two runs, for people."""
        parts = [self._trouble, self._progress.standing(), f"{self._compared} results compared"]
        return "; ".join(part for part in parts if part)
