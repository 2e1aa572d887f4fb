"""Loads rules into a mesh and out of it again, notes when, and hears what the rules measure."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from towpath.contracts.faults import Rule
from towpath.contracts.metrics import Metric
from towpath.lab.demonstration.faults.report import Mark
from towpath.lab.harness.held_rules import HeldRules
from towpath.lab.harness.journal import Journal
from towpath.lab.harness.stage import Stage


@dataclass
class Injection:
    """What was loaded and unloaded. Use `injection()`."""

    rules: HeldRules
    marks: list[Mark] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)

    async def load(self, rule: Rule, what: str | None = None) -> None:
        """Load a rule, which ends by itself should this process die. Raises `TowpathError`.

        `what`, where it acts, makes a mark of it.
        """
        await self.rules.load([rule])
        self._mark(rule.name, what, loaded=True)

    async def unload(self, rule: Rule, what: str | None = None) -> None:
        """Unload a rule. Raises `TowpathError`."""
        await self.rules.unload([rule.name])
        self._mark(rule.name, what, loaded=False)

    def acted(self, prefix: str) -> dict[str, int]:
        """How often each rule whose name begins so has acted, as last heard."""
        counts = self.rules.counts.items()
        return {name: count.acted for name, count in counts if name.startswith(prefix)}

    def _mark(self, rule: str, what: str | None, *, loaded: bool) -> None:
        if what is not None:
            self.marks.append(Mark(at=time.time(), rule=rule, what=what, loaded=loaded))


@asynccontextmanager
async def injection(stage: Stage) -> AsyncIterator[Injection]:
    """Rules can be loaded inside; none of them is in the end. Raises `TowpathError`."""
    async with await stage.connected("metrics") as bus, HeldRules(stage.bus, Journal(None)) as rules:
        injected = Injection(rules)

        async def hear(metric: Metric) -> None:
            injected.metrics.append(metric)

        await bus.subscribe(Metric, hear)
        try:
            yield injected
        finally:
            await rules.unload_all()
