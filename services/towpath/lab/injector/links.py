"""Carries out rules about links: tells the links' service, and renews what it was told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import cast

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import DEFAULT_LEASE_S, OnTarget, RuleCount, TargetKind
from towpath.contracts.links import LinkConditions, ListLinks, RestoreLink, ShapeLink
from towpath.contracts.message import HUB_SCOPE, Command
from towpath.lab.faults.conditions import Evaluation
from towpath.lab.faults.registry import LinkFault, made
from towpath.lab.injector.loaded import Loaded, LoadedRules
from towpath.lab.injector.record import RecordedLink

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.25
"""Between looks at the conditions, as for other targets."""

RENEW_S = 2.0
"""A link that nobody renews restores itself after `DEFAULT_LEASE_S`."""

DEADLINE_S = 1.0
"""For an answer of the links' service, which is beside the injector."""

PROCESS = "injector"
"""The name of the process that looks."""

RuleVersion = tuple[str, int]


@dataclass
class _Carried:
    """A rule about a link, at work."""

    loaded: Loaded
    evaluation: Evaluation
    faults: list[LinkFault]
    acted: int = 0
    errors: int = 0
    last_error: str | None = None

    @property
    def site(self) -> str:
        """Whose link it is about."""
        return cast("OnTarget", self.loaded.told.rule.event).name

    def holds(self) -> bool:
        """Whether its condition holds now. One that fails does not."""
        fields = {"target": TargetKind.LINK.value, "name": self.site, "site": HUB_SCOPE, "process": PROCESS}
        try:
            return self.evaluation.holds(fields)
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
            return False

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """The conditions with all faults of the rule added."""
        for each in self.faults:
            conditions = each.worsen(conditions)
        return conditions

    def fail(self, why: str) -> None:
        """Count that nothing could be done."""
        self.errors += 1
        self.last_error = why

    def count(self) -> RuleCount:
        """What came of it so far."""
        return RuleCount(
            rule=self.loaded.name,
            version=self.loaded.told.version,
            looked=self.evaluation.looked,
            acted=self.acted,
            errors=self.errors,
            last_error=self.last_error,
        )


@dataclass
class _Held:
    """A link that rules have made worse."""

    before: RecordedLink
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
        self._shared = shared
        self._remember = remember
        self._carried: dict[RuleVersion, _Carried] = {}
        self._held: dict[str, _Held] = {}
        self._looking = asyncio.Lock()

    @property
    def held(self) -> dict[str, RecordedLink]:
        """Site → how its link was before rules made it worse."""
        return {site: held.before for site, held in self._held.items()}

    def take_over(self, held: dict[str, RecordedLink]) -> None:
        """Restore, with the next look, what an earlier injector has made worse."""
        self._held |= {site: _Held(before) for site, before in held.items()}

    async def carry_out(self) -> None:
        """Look at the conditions again and again, for ever."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Make links as bad as the rules want them now, and no worse."""
        async with self._looking:
            self._begin_and_end()
            held = {*self._held}
            holding = [each for each in self._carried.values() if each.holds()]
            for site in sorted({each.site for each in holding} | self._held.keys()):
                await self._make_so(site, [each for each in holding if each.site == site])
            if held - self._held.keys():
                # Once for all: who follows without having read it restores them once more.
                await self._remember()
            for each in self._carried.values():
                self._loaded.note(HUB_SCOPE, each.count())

    def _begin_and_end(self) -> None:
        wanted = {(each.name, each.told.version): each for each in self._loaded.about_links()}
        self._carried = {key: each for key, each in self._carried.items() if key in wanted}
        for key, loaded in wanted.items():
            if key not in self._carried:
                self._carried[key] = self._begin(loaded)

    def _begin(self, loaded: Loaded) -> _Carried:
        rule = loaded.told.rule
        evaluation = Evaluation(rule, loaded_at=loaded.told.loaded_at.timestamp(), shared=self._shared)
        random = Random(rule.seed)
        faults = [made(action, TargetKind.LINK.value, random) for action in rule.actions]
        return _Carried(loaded, evaluation, cast("list[LinkFault]", faults))

    async def _make_so(self, site: str, rules: list[_Carried]) -> None:
        try:
            if rules:
                await self._worsen(site, rules)
            else:
                await self._restore(site)
        except TowpathError as error:
            # Nothing to undo: what is not renewed restores itself. The next look tries again.
            log.warning("link of %s: %s", site, error)
            for each in rules:
                each.fail(str(error))

    async def _worsen(self, site: str, rules: list[_Carried]) -> None:
        if site not in self._held:
            await self._hold(site)
        held = self._held[site]
        wanted = held.before.remaining()
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
        """Put on record how a link is, before it is touched: whoever follows knows what to restore."""
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
        before = self._held[site].before.remaining()
        await self._tell(
            RestoreLink(site=site) if before.perfect else ShapeLink(site=site, conditions=before)
        )
        del self._held[site]

    async def _as_it_is(self, site: str) -> RecordedLink:
        links = (await self._bus.request(ListLinks(), deadline_s=DEADLINE_S)).links
        found = next((view for view in links if view.site == site), None)
        if found is None:
            return RecordedLink(conditions=LinkConditions())
        return RecordedLink(conditions=found.conditions, until=found.until)

    async def _tell(self, command: Command) -> None:
        await self._bus.request(command, deadline_s=DEADLINE_S)
