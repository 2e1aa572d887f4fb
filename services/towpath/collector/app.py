"""The wiring of the collector."""

from __future__ import annotations

import asyncio
import logging

from towpath.collector.settings import Settings
from towpath.contracts.metrics import METRICS_TABLE, DescribeMetrics, MetricCatalogue
from towpath.mesh.service import connected

log = logging.getLogger(__name__)

INTERVAL_S = 2.0


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Collect until `stop` is set."""
    connection = await connected(settings, "collector", stop)
    if connection is None:
        return
    async with connection as bus:
        await bus.serve(DescribeMetrics, _describe)
        log.info("collecting")
        await stop.wait()


async def _describe(_: DescribeMetrics) -> MetricCatalogue:
    return MetricCatalogue(metrics=list(METRICS_TABLE), interval_s=INTERVAL_S)
