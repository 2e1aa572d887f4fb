"""Brings every scope its rules, and knows which scopes have them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable
from functools import partial

from towpath.contracts.fault_commands import DEFAULT_LEASE_S, RulesSet, SetRules
from towpath.contracts.faults import LoadedRule, RuleCount
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.faults.conditions import scope_of_figure
from towpath.lab.faults.rule_actions import asked_by
from towpath.lab.faults.vocabulary import OWN_SITE
from towpath.lab.injector.courier import Courier, Deliver
from towpath.lab.injector.loaded import LoadedRules
from towpath.tasks import end

SETTLE_S = 2.0
"""For a change to arrive everywhere: two attempts. Later ones are made without anybody waiting."""


class Distribution:
    """One courier for each scope.

    Invariant: a courier's revision grows whenever the rules of its scope change, and only then.
    """

    def __init__(self, loaded: LoadedRules, revision: int, note: Callable[[str, RuleCount], None]) -> None:
        """`revision` must be greater than any that an earlier injector has used; `note` is told what a scope
        has counted."""
        self._revision = revision
        self.shared: dict[str, float] = {}
        """Figures that conditions ask for, as last measured."""
        self._loaded = loaded
        self._note = note
        self._couriers: dict[str, Courier] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._asked: dict[str, frozenset[str]] = {}
        """Scope → figures that its rules ask for."""
        self._wanted = frozenset[str]()
        """Figures that any rule asks for, also those about links, which the injector itself carries out."""

    def add(self, scope: str, deliver: Deliver) -> None:
        """Serve one more scope: first of all it is told what there is."""
        if scope in self._couriers:
            return
        courier = Courier(scope, self._told, deliver, partial(self._answered, scope))
        courier.revision = self._revision
        self._couriers[scope] = courier
        self._tasks.append(asyncio.create_task(courier.run(), name=f"rules of {scope}"))

    @property
    def unreached(self) -> frozenset[str]:
        """Scopes that did not take their rules the last time."""
        return frozenset(scope for scope, courier in self._couriers.items() if courier.unreached)

    def changed(self, scopes: Collection[str]) -> None:
        """Bring these scopes what is loaded now. To be called with every change, before anything else is."""
        self._revision += 1
        before = self._wanted
        of_links = _asked([each.told for each in self._loaded.about_links()], HUB_SCOPE)
        self._asked = {scope: _asked(self._loaded.told(scope), scope) for scope in self._couriers}
        self._wanted = of_links.union(*self._asked.values())
        self.shared = {name: value for name, value in self.shared.items() if name in self._wanted}
        for scope in {scope_of_figure(name) for name in before ^ self._wanted} & self._couriers.keys():
            self._couriers[scope].call()
        for scope in self._couriers.keys() & scopes:
            self._couriers[scope].call(self._revision)

    @property
    def revision(self) -> int:
        """The newest that a scope was told."""
        return self._revision

    def shared_value(self, name: str) -> float | None:
        """Return the figure of a name such as `cpu_percent(jfk)`. None: it has not been measured."""
        return self.shared.get(name)

    async def settled(self, scopes: Iterable[str]) -> None:
        """Wait until these scopes have what is loaded now, or do not answer."""
        waiting = [self._couriers[scope].settled() for scope in scopes if scope in self._couriers]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*waiting)

    async def close(self) -> None:
        """Bring nothing any more."""
        await end(self._tasks)

    def _told(self, scope: str, revision: int) -> SetRules:
        rules = self._loaded.told(scope)
        own = self._asked.get(scope, frozenset())
        shared = {name: self.shared[name] for name in own if name in self.shared}
        for name in self._wanted - own:
            if scope_of_figure(name) == scope:
                # Tells the scope to measure. No rule of its own looks at the value.
                shared[name] = self.shared.get(name, 0.0)
        return SetRules(site=scope, revision=revision, lease_s=DEFAULT_LEASE_S, rules=rules, shared=shared)

    def _answered(self, scope: str, answer: RulesSet) -> None:
        for count in answer.counts:
            self._note(scope, count)
        measured = {f"{name}({scope})": value for name, value in answer.measured.items()}
        self.shared |= {name: value for name, value in measured.items() if name in self._wanted}


def _asked(rules: Iterable[LoadedRule], scope: str) -> frozenset[str]:
    """Return the figures that rules ask for where they are carried out for a scope."""
    names = frozenset[str]().union(*(asked_by(each.rule) for each in rules))
    return frozenset(name.replace(f"({OWN_SITE})", f"({scope})") for name in names)
