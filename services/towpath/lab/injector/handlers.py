"""Messages become decisions: one method a command of the injector."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from towpath.bus import Bus
from towpath.contracts.errors import ErrorDetail, TowpathError
from towpath.contracts.fault_commands import (
    DescribeFaults,
    ExplainRule,
    Explanation,
    FaultCatalogue,
    ListMetrics,
    ListRules,
    LoadRules,
    RenewRules,
    RuleList,
    UnloadRules,
)
from towpath.contracts.faults import Rule
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Metric
from towpath.lab.faults.explanation import explain
from towpath.lab.faults.validation import problems
from towpath.lab.faults.world import World, looking_processes, scopes_of
from towpath.lab.guard.keeper import Keeper
from towpath.lab.injector.catalogue import catalogue
from towpath.lab.injector.courier import ATTEMPT_S
from towpath.lab.injector.mesh_survey import MeshSurvey
from towpath.lab.injector.metrics import Metrics
from towpath.lab.injector.rules import Rules


class InjectorHandlers:
    """Answers the commands of the injector."""

    def __init__(self, bus: Bus, keeper: Keeper, rules: Rules, survey: MeshSurvey, metrics: Metrics) -> None:
        self._bus = bus
        self._keeper = keeper
        self._rules = rules
        self._survey = survey
        self._metrics = metrics
        self._changing = asyncio.Lock()
        """Held from when rules are judged until they are loaded: an unloading that was sent later comes
        later, and what it unloads is not loaded again because it was found loaded."""
        self._heard: set[str] = set()
        """Scopes whose metrics are heard."""

    async def serve(self) -> None:
        """Listen for all commands."""
        await self._bus.serve(LoadRules, self.load)
        await self._bus.serve(RenewRules, self.renew)
        await self._bus.serve(UnloadRules, self.unload)
        await self._bus.serve(ListRules, self.list_rules)
        await self._bus.serve(ExplainRule, self.explain)
        await self._bus.serve(DescribeFaults, self.describe)
        await self._bus.serve(ListMetrics, self._metrics.list_metrics)

    async def load(self, command: LoadRules) -> RuleList:
        """See `LoadRules`."""
        async with self._changing:
            await self._judge(command.rules)
            world = World(sites=frozenset(await self.serve_sites()))
            scoped = {rule.name: (rule, scopes_of(rule, world)) for rule in command.rules}
            change = self._rules.load(scoped, command.lease_s)
        await self._rules.spread(change)
        return self._rules.list()

    async def _judge(self, rules: Sequence[Rule]) -> None:
        """Raise `TowpathError` with all that is wrong with rules that are not loaded yet."""
        # An equal rule was judged when it was loaded; what it is about may have gone since.
        new = self._rules.loaded.different(rules)
        if new:
            world = await self._survey.world(new)
            wrong = {rule.name: await asyncio.to_thread(problems, rule, world) for rule in new}
            refuse(rules, wrong)

    async def renew(self, command: RenewRules) -> RuleList:
        """See `RenewRules`."""
        self._rules.loaded.renew(command.versions, command.lease_s)
        return self._rules.list()

    async def unload(self, command: UnloadRules) -> RuleList:
        """See `UnloadRules`."""
        async with self._changing:
            change = self._rules.unload(command.names)
        await self._rules.spread(change)
        return self._rules.list()

    async def list_rules(self, _: ListRules) -> RuleList:
        """See `ListRules`."""
        return self._rules.list()

    async def explain(self, command: ExplainRule) -> Explanation:
        """See `ExplainRule`."""
        rule = command.rule
        world = await self._survey.world([rule])
        errors = await asyncio.to_thread(problems, rule, world)
        running = await asyncio.to_thread(self._survey.running, world)
        return Explanation(
            rule=rule.name,
            text=await asyncio.to_thread(explain, rule, running),
            processes=looking_processes(rule, running),
            loadable=not errors,
            errors=errors,
        )

    async def describe(self, _: DescribeFaults) -> FaultCatalogue:
        """See `DescribeFaults`."""
        return catalogue(await self._survey.everything())

    async def serve_sites(self) -> list[str]:
        """Bring rules to the hub and to all sites that there are now, and hear their metrics. Returns the
        sites."""
        sites = sorted((await self._survey.mesh()).sites)
        for scope in (HUB_SCOPE, *sites):
            await self._hear(scope)
        self._rules.distribution.add(HUB_SCOPE, self._keeper.set_rules)
        for site in sites:
            # One attempt each time: the courier comes again with what is new then.
            self._rules.distribution.add(site, partial(self._bus.request, deadline_s=ATTEMPT_S))
        return sites

    async def _hear(self, scope: str) -> None:
        """Each scope by name: what its server may let out is its own metrics, and one subscription to those
        of all scopes would be wider than that, so that nothing came."""
        if scope not in self._heard:
            self._heard.add(scope)
            await self._bus.subscribe(Metric, self._metrics.hear, site=scope)


def refuse(rules: Sequence[Rule], wrong: dict[str, list[ErrorDetail]]) -> None:
    """Raise `TowpathError` with all that is wrong, if anything is; fields say in which of the rules."""
    errors = [
        error.model_copy(
            update={"field": f"rules.{place}.{error.field}" if error.field else f"rules.{place}"}
        )
        for place, rule in enumerate(rules)
        for error in wrong.get(rule.name, [])
    ]
    if errors:
        raise TowpathError.of(errors[0].model_copy(update={"errors": errors}))
