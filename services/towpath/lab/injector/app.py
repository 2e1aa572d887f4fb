"""The wiring of the injector."""

from __future__ import annotations

import asyncio
import logging

from towpath.bus import Bus
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.guard.keeper import Keeper
from towpath.lab.injector.handlers import InjectorHandlers
from towpath.lab.injector.mesh_survey import MeshSurvey
from towpath.lab.injector.metrics import Metrics
from towpath.lab.injector.record import InjectorRecord
from towpath.lab.injector.rules import Rules
from towpath.lab.injector.settings import InjectorSettings
from towpath.mesh.service_process import at_hub
from towpath.tasks import end

log = logging.getLogger(__name__)


async def run(settings: InjectorSettings, stop: asyncio.Event) -> None:
    """Load and unload rules until `stop` is set; then everything is unloaded.

    What an earlier injector has loaded is unloaded first.
    """
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        await _inject(settings, bus, stop)


async def _inject(settings: InjectorSettings, bus: Bus, stop: asyncio.Event) -> None:
    record = InjectorRecord(settings.record)
    rules = Rules(bus, record, await record.read())
    keeper = Keeper(settings.home, HUB_SCOPE, bus.publish)
    metrics = Metrics()
    handlers = InjectorHandlers(bus, keeper, rules, MeshSurvey(settings.home, bus), metrics)
    await handlers.serve_sites()
    working = [asyncio.create_task(work) for work in (keeper.watch(), rules.carry_out())]
    stopping = asyncio.create_task(stop.wait())
    try:
        await handlers.serve()
        log.info("taking rules")
        # What ends by itself has failed: a restarted process unloads everything.
        await asyncio.wait({*working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in working:
            if task.done():
                task.result()
    finally:
        await end([*working, stopping])
        await rules.close()
        await keeper.close()
