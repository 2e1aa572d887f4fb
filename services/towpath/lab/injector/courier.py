"""Brings the rules of one scope there, again and again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.contracts.fault_commands import RulesSet, SetRules

log = logging.getLogger(__name__)

RENEW_S = 1.0
"""Between renewals: a lease survives three that are lost."""

ATTEMPT_S = 1.2
"""For an answer. Agents write a small file; one that is paused is found out soon."""

RETRY_S = 0.5
SLOWEST_RETRY_S = 5.0
"""While no one answers: about one lease. The rules of a scope that is away have ended by then."""

LAST_COUNTS_S = 1.5
"""A scope without rules is still asked for so long after a change: processes report once a second at most."""


Deliver = Callable[[SetRules], Awaitable[RulesSet]]
"""Hands rules over. Raises `TowpathError` when no one took them."""


class Courier:
    """Knows what its scope was told last, and whether that was heard.

    Without rules and with nothing unconfirmed it is silent.
    """

    def __init__(
        self,
        scope: str,
        write: Callable[[str, int], SetRules],
        deliver: Deliver,
        answered: Callable[[RulesSet], None],
    ) -> None:
        """`write` makes the command for a scope under a revision; `answered` is told each answer."""
        self.scope = scope
        self.revision = 0
        """Of the rules that the scope is to have."""
        self.tried = -1
        """The newest revision that was taken, or that was refused at least once."""
        self._write = write
        self._deliver = deliver
        self._answered = answered
        self._called = asyncio.Event()
        self._progress = asyncio.Condition()
        self._failures = 0
        self._ask_until = 0.0

    @property
    def unreached(self) -> bool:
        """True if no one answered the last time."""
        return self._failures > 0

    def call(self, revision: int | None = None) -> None:
        """There is something new to bring: rules, then under a new revision, or what they may ask."""
        self.revision = self.revision if revision is None else revision
        self._ask_until = asyncio.get_running_loop().time() + LAST_COUNTS_S
        self._called.set()

    async def settled(self) -> None:
        """Wait until the scope has its current rules, or has not answered."""
        revision = self.revision
        async with self._progress:
            await self._progress.wait_for(lambda: self.tried >= revision)

    async def run(self) -> None:
        """Bring and renew, until cancelled."""
        while True:
            self._called.clear()
            told = self._write(self.scope, self.revision)
            await self._bring(told)
            async with self._progress:
                self.tried = max(self.tried, told.revision)
                self._progress.notify_all()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._called.wait(), self._pause_s(told))

    async def _bring(self, told: SetRules) -> None:
        try:
            async with asyncio.timeout(ATTEMPT_S):
                answer = await self._deliver(told)
        except (TowpathError, NatsError, OSError, TimeoutError) as error:
            if not self._failures:
                log.warning("rules of %s were not taken: %s", self.scope, error)
            self._failures += 1
            return
        if self._failures:
            log.info("rules of %s are taken again", self.scope)
        self._failures = 0
        self._answered(answer)

    def _pause_s(self, told: SetRules) -> float | None:
        """Return the seconds until the next time. None: until there is something new."""
        has_lease = bool(told.rules or told.shared)
        if self._failures:
            slowest = RENEW_S if has_lease else SLOWEST_RETRY_S
            return min(RETRY_S * 2 ** min(self._failures - 1, 10), slowest)
        if asyncio.get_running_loop().time() < self._ask_until:
            return RETRY_S
        return RENEW_S if has_lease else None
