"""The wiring of the autopilot."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError

from towpath.autopilot.commands import AutopilotCommands
from towpath.autopilot.memory import Memory
from towpath.autopilot.pilot import Pilot
from towpath.autopilot.settings import AutopilotSettings
from towpath.bus import Bus
from towpath.bus.announcements import Announcements
from towpath.mesh.service_process import at_hub
from towpath.tasks import end

log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Pause while the hub's events are not there yet."""


async def run(settings: AutopilotSettings, stop: asyncio.Event) -> None:
    """Look and decide until `stop` is set. The next autopilot continues moves under way."""
    async with at_hub(settings, stop) as bus:
        if bus is None:
            return
        async with asyncio.TaskGroup() as group:
            # An error that was not foreseen ends the process: the supervisor starts another one.
            flying = group.create_task(_fly(settings, bus), name="autopilot")
            await stop.wait()
            await end([flying])


async def _fly(settings: AutopilotSettings, bus: Bus) -> None:
    memory = await _recalled(bus)
    pilot = Pilot(bus, settings, memory)
    await AutopilotCommands(settings, memory, pilot).serve(bus)
    log.info("the autopilot is on: %s", settings.spec.mode)
    await pilot.fly()


async def _recalled(bus: Bus) -> Memory:
    """Return the memory once the hub's events can be read."""
    while True:
        memory = Memory(Announcements(bus))
        try:
            await memory.recall(bus)
        except (NatsError, JetStreamError, OSError, TimeoutError) as error:
            log.warning("no events yet: %s", error)
            await asyncio.sleep(AGAIN_S)
        else:
            return memory
