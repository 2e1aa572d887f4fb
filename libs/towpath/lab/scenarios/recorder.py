"""Writes the metrics down that a scenario collects."""

from __future__ import annotations

from towpath.bus import Bus
from towpath.contracts.metrics import Metric
from towpath.contracts.scenario import Collection
from towpath.lab.harness.journal import Entry, Journal


class Recorder:
    """Hears metrics during one run."""

    def __init__(self, journal: Journal, collect: Collection) -> None:
        self._journal, self._names = journal, set(collect.metrics)

    async def listen(self, bus: Bus) -> None:
        """Hear metrics from now on, as long as the bus is open; nothing if none is collected."""
        if self._names:
            await bus.subscribe(Metric, self.take)

    async def take(self, metric: Metric) -> None:
        """Take one in."""
        if "*" in self._names or metric.name in self._names:
            self._journal.add(Entry.METRIC, **metric.model_dump(mode="json", exclude={"at"}))
