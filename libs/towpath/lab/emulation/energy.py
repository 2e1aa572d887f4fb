"""The energy that the nodes of a topology take, from the processor time of their containers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from towpath.containers.errors import DaemonError
from towpath.lab.emulation.emulation import Emulation
from towpath.lab.topology.power import NodeMeter, Reading

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""Processor time adds up by itself: rarer looks make the curve coarser, and the sum no less exact."""


class EnergyMeter:
    """Reads all nodes that have a power profile, again and again."""

    def __init__(self, running: Emulation, on_power: Callable[[str, float], None]) -> None:
        """`on_power` is told what a node draws, watts, at each look."""
        profiles = {node.name: node.power for node in running.topology.nodes}
        self.meters = {name: NodeMeter(power) for name, power in profiles.items() if power is not None}
        self._running, self._on_power = running, on_power

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Read every node once. One that cannot be read now is read with the next look."""
        for name, meter in self.meters.items():
            cpus = self._running.share(name).cpus
            try:
                cpu_s = await self._running.nodes.cpu_s(name)
            except DaemonError as error:
                log.warning("what %s draws is not known: %s", name, error)
                continue
            self._on_power(name, meter.take(Reading(time.monotonic(), cpu_s), cpus))
