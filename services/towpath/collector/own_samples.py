"""What the collector measures itself, on its way into the hub's store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from towpath.contracts.metrics import Sample
from towpath.telemetry.metric_store import MetricStore

log = logging.getLogger(__name__)


class OwnSamples:
    """Gives samples to the hub's store."""

    def __init__(self, store: MetricStore) -> None:
        self._store = store

    async def add(self, samples: list[Sample]) -> None:
        """Store samples at once. Raises what the store raises."""
        if samples:
            await asyncio.to_thread(self._store.add, samples)

    async def measure(self, measure: Callable[[], Awaitable[list[Sample]]], every_s: float) -> None:
        """Measure and store, for ever; what fails, as on a full disk, is tried again in the next round."""
        while True:
            try:
                await self.add(await measure())
            except Exception:
                log.exception("not measured")
            await asyncio.sleep(every_s)
