"""The wiring of the monitor."""

from __future__ import annotations

import asyncio
import logging

from towpath.bus import Bus
from towpath.monitor.comparisons import Comparisons
from towpath.monitor.handlers import Handlers
from towpath.monitor.settings import Settings

log = logging.getLogger(__name__)


async def run(settings: Settings, stop: asyncio.Event) -> None:
    """Monitor until `stop` is set. What is under way then is continued by the next monitor."""
    connecting = asyncio.create_task(
        Bus.connect(settings.hub_url, settings.hub_user, settings.hub_password, name="monitor")
    )
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({connecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not connecting.done():
        connecting.cancel()
        await asyncio.gather(connecting, return_exceptions=True)
        return
    async with connecting.result() as bus:
        comparisons = Comparisons(bus)
        try:
            await Handlers(comparisons).serve(bus)
            log.info("monitoring")
            await stopping
        finally:
            await comparisons.close()
