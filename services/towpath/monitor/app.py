"""The wiring of the monitor."""

from __future__ import annotations

import asyncio
import logging

from towpath.bus.terms import Terms
from towpath.mesh.service_process import at_hub
from towpath.monitor.comparisons import Comparisons
from towpath.monitor.handlers import MonitorHandlers
from towpath.monitor.settings import MonitorSettings

log = logging.getLogger(__name__)


async def run(settings: MonitorSettings, stop: asyncio.Event) -> None:
    """Monitor until `stop` is set. The next monitor continues comparisons under way."""
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        bus.terms = Terms()
        comparisons = Comparisons(bus)
        try:
            await MonitorHandlers(comparisons).serve(bus)
            log.info("monitoring")
            await stop.wait()
        finally:
            await comparisons.close()
