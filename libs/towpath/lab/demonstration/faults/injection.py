"""Loads rules into a mesh and out of it again, and notes when."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from towpath.bus import Bus
from towpath.contracts.faults import (
    LONGEST_LEASE_S,
    KeptMetric,
    ListMetrics,
    ListRules,
    LoadRules,
    Rule,
    UnloadRules,
)
from towpath.contracts.metrics import Metric
from towpath.lab.demonstration.faults.report import Mark
from towpath.tasks import end

DEADLINE_S = 30.0
ATTEMPT_S = 5.0

COLLECT_EVERY_S = 2.0
"""The injector keeps ten thousand metrics: they are fetched long before they are so many."""


@dataclass
class Injection:
    """What was loaded and unloaded. Use `injection()`."""

    bus: Bus
    marks: list[Mark] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    acted: dict[str, int] = field(default_factory=dict)
    """Rule → how often it has acted, as last heard."""
    _heard: int = 0

    async def load(self, rule: Rule, what: str | None = None) -> None:
        """Load a rule, which ends by itself should this process die. Raises `TowpathError`.

        `what`, where it acts, makes a mark of it.
        """
        command = LoadRules(rules=[rule], lease_s=LONGEST_LEASE_S)
        await self.bus.request(command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
        self._mark(rule.name, what, loaded=True)

    async def unload(self, rule: Rule, what: str | None = None) -> None:
        """Unload a rule, and note how often it acted. Raises `TowpathError`."""
        listed = await self.bus.request(ListRules(), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
        self.acted |= {view.rule.name: view.count.acted for view in listed.rules}
        await self.unload_all([rule.name])
        self._mark(rule.name, what, loaded=False)

    async def unload_all(self, names: list[str] | None = None) -> None:
        """Unload these rules, or all. Raises `TowpathError`."""
        await self.bus.request(UnloadRules(names=names), deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)

    def _mark(self, rule: str, what: str | None, *, loaded: bool) -> None:
        if what is not None:
            self.marks.append(Mark(at=time.time(), rule=rule, what=what, loaded=loaded))

    async def collect(self) -> None:
        """Fetch what was measured since the last time. Raises `TowpathError`."""
        command = ListMetrics(after=self._heard, limit=10_000)
        found = await self.bus.request(command, deadline_s=DEADLINE_S, attempt_s=ATTEMPT_S)
        new: list[KeptMetric] = [kept for kept in found.metrics if kept.serial > self._heard]
        self.metrics += [kept.metric for kept in new]
        self._heard = max((kept.serial for kept in new), default=self._heard)

    async def _collect_for_ever(self) -> None:
        while True:
            await self.collect()
            await asyncio.sleep(COLLECT_EVERY_S)


@asynccontextmanager
async def injection(bus: Bus) -> AsyncIterator[Injection]:
    """Rules can be loaded inside; none of any name is in the end. Raises `TowpathError`."""
    injected = Injection(bus)
    await injected.unload_all()
    collecting = asyncio.create_task(injected._collect_for_ever(), name="collect metrics")
    try:
        yield injected
        await injected.collect()
    finally:
        await end([collecting])
        await asyncio.shield(injected.unload_all())
