"""Rules that are loaded into a mesh, when that was, and what they measure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from towpath.contracts.metrics import Metric
from towpath.lab.demonstration.faults.report import Mark
from towpath.lab.demonstration.faults.rules import SLOW
from towpath.lab.harness.held_rules import HeldRules
from towpath.lab.harness.journal import Entry, Journal, of
from towpath.lab.harness.stage import Stage


@dataclass
class Injection:
    """The rules of an experiment. Use `injection()`."""

    rules: HeldRules
    journal: Journal
    metrics: list[Metric] = field(default_factory=list)

    @property
    def marks(self) -> list[Mark]:
        """The moments when rules that slow something down were loaded and unloaded."""
        return marks_in(self.journal.lines)

    @property
    def delays(self) -> dict[str, int]:
        """For each rule that slows something down, how often it has acted, as last heard."""
        return {name: count.acted for name, count in self.rules.counts.items() if name.startswith(SLOW)}


def marks_in(lines: list[dict[str, Any]]) -> list[Mark]:
    """Return when, by a journal, rules that slow something down were loaded and unloaded."""
    return [
        Mark(at=line["at"], rule=rule, what=rule.rpartition("-")[2], loaded=line["kind"] == Entry.LOADED)
        for line in of(lines, Entry.LOADED, Entry.UNLOADED)
        for rule in line["rules"]
        if rule.startswith(SLOW)
    ]


@asynccontextmanager
async def injection(stage: Stage) -> AsyncIterator[Injection]:
    """Load rules inside the block. None of them stays loaded. Raises `TowpathError`."""
    journal = Journal(None)
    async with await stage.connected("metrics") as bus, HeldRules(stage.bus, journal) as rules:
        injected = Injection(rules, journal)

        async def hear(metric: Metric) -> None:
            injected.metrics.append(metric)

        await bus.subscribe(Metric, hear)
        try:
            yield injected
        finally:
            await rules.unload_all()
