"""What the collector measures itself, on its way into the hub's store: a full disk ends nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from towpath.contracts.faults import Metric
from towpath.contracts.metrics import Sample
from towpath.telemetry.metric_store import MetricStore
from towpath.telemetry.selection import RULE_PREFIX

log = logging.getLogger(__name__)

MOST_WAITING = 50_000
"""Samples that wait to be stored, at most: the oldest of what rules measure are then forgotten."""


class OwnSamples:
    """Gives samples to the hub's store."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store
        self._heard: list[Sample] = []
        """What rules measured since the last round: they may measure each event."""

    async def add(self, samples: list[Sample]) -> None:
        """Store samples at once. Raises what the store raises."""
        if samples:
            await asyncio.to_thread(self._store.add, samples)

    async def hear(self, metric: Metric) -> None:
        """Take what a rule measured somewhere; it is stored with the next round."""
        self._heard.append(sample_of(metric))
        del self._heard[:-MOST_WAITING]

    async def measure(self, measure: Callable[[], Awaitable[list[Sample]]], every_s: float) -> None:
        """Measure and store, for ever; what fails is tried again in the next round."""
        while True:
            try:
                await self.add(await measure())
            except Exception:
                log.exception("not measured")
            await asyncio.sleep(every_s)

    async def heard(self) -> list[Sample]:
        """What rules measured since the last time."""
        samples, self._heard = self._heard, []
        return samples


def sample_of(metric: Metric) -> Sample:
    """What a rule measured at a site, as a sample that is kept at the hub."""
    return Sample(
        entity=f"rule:{metric.site}/{metric.entity}",
        metric=f"{RULE_PREFIX}{metric.name}",
        at=metric.at.timestamp(),
        value=metric.value,
    )
