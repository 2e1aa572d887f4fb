"""Rules on a lease: a run renews them as long as it lives. When it is killed, they end by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import ListRules, LoadRules, RenewRules, RuleList, UnloadRules
from towpath.contracts.faults import Rule, RuleCount
from towpath.lab.harness.journal import Entry, Journal
from towpath.tasks import end
from towpath.telemetry.tracing import unrecorded

log = logging.getLogger(__name__)

LEASE_S = 12.0
"""Seconds: more than the injector takes to restart on a busy machine."""

RENEW_S = 3.0
ASK_S, ATTEMPT_S = 20.0, 5.0
RENEWAL_S = 2.5
LOOK_EVERY_S = 0.2


class HeldRules:
    """The rules that one run has loaded."""

    def __init__(self, bus: Bus, journal: Journal) -> None:
        self.counts: dict[str, RuleCount] = {}
        """Rule → how often it was looked at and acted, as far as known."""
        self._bus, self._journal = bus, journal
        self._held: dict[str, int] = {}
        """Rule → the version that was loaded."""
        self._own: set[str] = set()
        """Names of all rules that the run has loaded so far."""
        self._uncounted: set[str] = set()
        self._all_counted = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._renewing = asyncio.create_task(self._renew(), name="renew rules")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await end([self._renewing])

    async def unload_all(self) -> None:
        """Unload all rules that are held. Those that cannot be unloaded end with their lease."""
        if not self._held:
            return
        try:
            await self.unload(list(self._held))
        except TowpathError as unreachable:
            log.warning("rules end with their lease: %s", unreachable)

    @property
    def names(self) -> list[str]:
        """Names of the rules that are held now."""
        return list(self._held)

    async def load(self, rules: Sequence[Rule]) -> None:
        """Load rules, and hold them from now on. Raises `TowpathError` if they are refused."""
        await self._check_free(rules)
        command = LoadRules(rules=[*rules], lease_s=LEASE_S)
        answer = await self._bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
        self._take(answer)
        self._held |= _versions(answer, rules)
        self._uncounted |= {rule.name for rule in rules}
        self._all_counted.clear()
        self._journal.add(Entry.LOADED, rules=[rule.name for rule in rules])

    async def load_idle(self, rules: Sequence[Rule]) -> None:
        """Load rules that never act and are not counted. Raises `TowpathError` if they are refused."""
        if rules:
            await self._check_free(rules)
            command = LoadRules(rules=[*rules], lease_s=LEASE_S)
            answer = await self._bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)
            self._held |= _versions(answer, rules)

    async def _check_free(self, rules: Sequence[Rule]) -> None:
        """Raise `TowpathError` if a rule would replace one of the same name that is not the run's own."""
        names = [rule.name for rule in rules]
        answer = await self._bus.request(ListRules(), deadline_s=ASK_S, attempt_s=ATTEMPT_S)
        taken = [view.rule.name for view in answer.rules if view.rule.name in names]
        for name in taken:
            if name not in self._own:
                raise TowpathError(
                    ErrorCode.NAME_IN_USE,
                    "a rule of this name was loaded before the run",
                    field="load.name",
                    value=name,
                    allowed=f"another name; or `towpath faults unload {name}` first",
                )
        # Before they are sent, because rules without a confirmation may be loaded, too.
        self._own.update(names)

    async def unload(self, names: Sequence[str]) -> None:
        """Unload rules. Raises `TowpathError` without an answer: then they end with their lease."""
        await self.count()
        for name in names:
            self._held.pop(name, None)
        await self._bus.request(UnloadRules(names=[*names]), deadline_s=ASK_S, attempt_s=ATTEMPT_S)
        self._journal.add(Entry.UNLOADED, rules=[*names], why="unloaded")

    async def counted(self, within_s: float) -> None:
        """Wait until the last counts of all rules that ended are known, for `within_s` at most."""
        if self._uncounted:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_counted.wait(), within_s)

    async def acted(self, names: Sequence[str], within_s: float) -> None:
        """Wait until all of these rules that are still held have acted, for `within_s` at most."""
        loop = asyncio.get_running_loop()
        end_at = loop.time() + within_s
        while any(self._idle(name) for name in names) and loop.time() < end_at:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.count()

    def _idle(self, name: str) -> bool:
        return name in self._held and not (name in self.counts and self.counts[name].acted)

    async def count(self) -> None:
        """Ask how often the rules acted. Without an answer, a later one tells it."""
        try:
            self._take(await self._bus.request(ListRules(), deadline_s=RENEWAL_S))
        except TowpathError as error:
            log.info("rules are not counted: %s", error)

    def ended(self, name: str, why: str, count: RuleCount) -> None:
        """Note that a rule has ended: it is not renewed any more."""
        self._count(count)
        if self._held.get(name, count.version) != count.version:
            return  # Replaced: the newer one goes on.
        self._uncounted.discard(name)
        if not self._uncounted:
            self._all_counted.set()
        if self._held.pop(name, None) is not None:
            self._journal.add(Entry.UNLOADED, rules=[name], why=why)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                with unrecorded():
                    await self._renew_once()
            except TowpathError as error:
                log.info("rules are not renewed: %s", error)

    async def _renew_once(self) -> None:
        """Renew the rules that are loaded. Rules that an injector forgot when it died stay forgotten."""
        renewed = dict(self._held)
        if not renewed:
            return
        # A new command each time, because a repeated one is answered from memory.
        answer = await self._bus.request(RenewRules(versions=renewed, lease_s=LEASE_S), deadline_s=RENEWAL_S)
        self._take(answer)
        loaded = {view.rule.name: view.version for view in answer.rules}
        for name, version in renewed.items():
            # A rule that was replaced or unloaded meanwhile has another version here, or is gone.
            if loaded.get(name) != version and self._held.get(name) == version:
                del self._held[name]
                self._journal.add(Entry.UNLOADED, rules=[name], why="the injector does not know it")

    def _take(self, answer: RuleList) -> None:
        for view in answer.rules:
            self._count(view.count)

    def _count(self, count: RuleCount) -> None:
        known = self.counts.get(count.rule)
        if known is None or (count.acted, count.looked, count.errors) > (
            known.acted,
            known.looked,
            known.errors,
        ):
            self.counts[count.rule] = count


def _versions(answer: RuleList, rules: Sequence[Rule]) -> dict[str, int]:
    """Return the versions of those of the rules that are loaded."""
    names = {rule.name for rule in rules}
    return {view.rule.name: view.version for view in answer.rules if view.rule.name in names}
