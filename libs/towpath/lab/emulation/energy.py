"""The energy that the nodes of a topology take, from the processor time of their containers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from towpath.containers.errors import DaemonError
from towpath.lab.emulation.emulation import Emulation
from towpath.lab.topology.power import NodeEnergy, NodeMeter, Reading
from towpath.tasks import end

log = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
"""Processor time adds up by itself: rarer looks make the curve coarser, and the sum no less exact."""


class EnergyMeter:
    """Meters all nodes that have a power profile, inside its `async with` block. Without nodes: nothing."""

    def __init__(self, running: Emulation | None, on_power: Callable[[str, float], None]) -> None:
        """`on_power` is told what a node draws, watts, at each look."""
        nodes = running.topology.nodes if running else []
        self.meters = {node.name: NodeMeter(node.power) for node in nodes if node.power is not None}
        self._running, self._on_power = running, on_power
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> EnergyMeter:
        self._looking = asyncio.create_task(self._look_on(), name="energy")
        return self

    async def __aexit__(self, *ended: object) -> None:
        await end([self._looking])

    @property
    def energy(self) -> dict[str, NodeEnergy]:
        """The energy of each node so far."""
        return {name: meter.report() for name, meter in self.meters.items()}

    async def _look_on(self) -> None:
        while self._running is not None:
            await self._look(self._running)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self, running: Emulation) -> None:
        """Read every node once. One that cannot be read now is read with the next look."""
        for name, meter in self.meters.items():
            cpus = running.share(name).cpus
            try:
                cpu_s = await running.nodes.cpu_s(name)
            except DaemonError as error:
                log.warning("the power of %s is not known: %s", name, error)
                continue
            self._on_power(name, meter.take(Reading(time.monotonic(), cpu_s), cpus))
