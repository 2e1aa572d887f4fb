"""Carries out rules about links: tells the links' service, and renews what it was told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.fault_commands import DEFAULT_LEASE_S
from towpath.contracts.faults import LoadedRule, RuleCount
from towpath.contracts.links import LinkConditions, ListLinks, RestoreLink, ShapeLink
from towpath.contracts.message import HUB_SCOPE, Command, now
from towpath.lab.faults.registry import LinkFault
from towpath.lab.faults.rule_at_work import ProcessContext, RulesAtWork, TargetRule
from towpath.lab.injector.loaded import LoadedRules
from towpath.lab.proxy.recorded_conditions import RecordedConditions

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
"""Between looks at the conditions, as for other targets."""

RENEW_S = 2.0
"""A link that is not renewed restores itself after `DEFAULT_LEASE_S`."""

DEADLINE_S = 1.0
"""For an answer of the links' service, which is beside the injector."""

PROCESS = "injector"
"""The name of the process that looks."""


class LinkRule(TargetRule):
    """One loading of a rule about a link."""

    def __init__(self, loaded: LoadedRule, context: ProcessContext) -> None:
        """Raises `TowpathError` when no injector can carry it out."""
        super().__init__(loaded, context)
        self.site = self.event.name
        """Whose link it is about."""
        self.acted = 0

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Return the conditions with all faults of the rule added."""
        for each in self.faults:
            conditions = cast("LinkFault", each).worsen(conditions)
        return conditions

    def count(self) -> RuleCount:
        """Return how often it looked, and how often the links' service has done what it says."""
        return super().count().model_copy(update={"acted": self.acted})


@dataclass
class _Held:
    """A link that rules have made worse."""

    before: RecordedConditions
    shaped: LinkConditions = field(default_factory=LinkConditions)
    renewed_at: float = float("-inf")


class LinkRules:
    """All rules about links.

    Invariant: a link that differs from how it was before is in `held`, on disk too, and restores itself soon.
    """

    def __init__(
        self,
        loaded: LoadedRules,
        bus: Bus,
        shared: Callable[[str], float | None],
        remember: Callable[[], Awaitable[bool]],
    ) -> None:
        """`shared` gives what conditions ask of the whole mesh; `remember` puts `held` on disk, if it can."""
        self._loaded = loaded
        self._bus = bus
        self._remember = remember
        context = ProcessContext(HUB_SCOPE, PROCESS, shared)
        self._rules = RulesAtWork[LinkRule](lambda loaded: LinkRule(loaded, context))
        self._held: dict[str, _Held] = {}
        self._looking = asyncio.Lock()

    @property
    def held(self) -> dict[str, RecordedConditions]:
        """Site → how its link was before rules made it worse."""
        return {site: held.before for site, held in self._held.items()}

    def take_over(self, held: dict[str, RecordedConditions]) -> None:
        """Restore, with the next look, what an earlier injector has made worse."""
        self._held |= {site: _Held(before) for site, before in held.items()}

    async def carry_out(self) -> None:
        """Look at the conditions again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Make links as bad as the rules want them now, and no worse."""
        async with self._looking:
            self._rules.follow(each.told for each in self._loaded.about_links())
            held = {*self._held}
            holding = [each for each in self._rules if each.holds()]
            for site in sorted({each.site for each in holding} | self._held.keys()):
                await self._make_so(site, [each for each in holding if each.site == site])
            if held - self._held.keys():
                # Once for all: who follows without having read it restores them once more.
                await self._remember()
            for count in self._rules.counts():
                self._loaded.note(HUB_SCOPE, count)

    async def _make_so(self, site: str, rules: list[LinkRule]) -> None:
        try:
            if rules:
                await self._worsen(site, rules)
            else:
                await self._restore(site)
        except TowpathError as error:
            # Nothing to undo: what is not renewed restores itself. The next look tries again.
            log.warning("link of %s: %s", site, error)
            for each in rules:
                each.failed(error)

    async def _worsen(self, site: str, rules: list[LinkRule]) -> None:
        if site not in self._held:
            await self._hold(site)
        held = self._held[site]
        wanted = held.before.remaining(now())
        for each in rules:
            wanted = each.worsen(wanted)
        wanted = wanted.model_copy(update={"for_s": DEFAULT_LEASE_S})
        at = asyncio.get_running_loop().time()
        if wanted != held.shaped or at - held.renewed_at >= RENEW_S:
            await self._tell(ShapeLink(site=site, conditions=wanted))
            held.shaped, held.renewed_at = wanted, at
        for each in rules:
            each.acted += 1

    async def _hold(self, site: str) -> None:
        """Record how a link is before it is touched: the next injector knows what to restore."""
        self._held[site] = _Held(await self._as_it_is(site))
        is_recorded = False
        try:
            is_recorded = await self._remember()
        finally:
            if not is_recorded:
                del self._held[site]
        if not is_recorded:
            raise TowpathError(ErrorCode.FAILED, "how the link is could not be written down")

    async def _restore(self, site: str) -> None:
        before = self._held[site].before.remaining(now())
        await self._tell(
            RestoreLink(site=site) if before.perfect else ShapeLink(site=site, conditions=before)
        )
        del self._held[site]

    async def _as_it_is(self, site: str) -> RecordedConditions:
        links = (await self._bus.request(ListLinks(), deadline_s=DEADLINE_S)).links
        found = next((view for view in links if view.site == site), None)
        if found is None:
            return RecordedConditions(conditions=LinkConditions())
        return RecordedConditions(conditions=found.conditions, until=found.until)

    async def _tell(self, command: Command) -> None:
        await self._bus.request(command, deadline_s=DEADLINE_S)
