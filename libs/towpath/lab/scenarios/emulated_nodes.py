"""What a run does about the nodes under it: nothing where its sites are no nodes of an emulated topology."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.scenario_nodes import NodeStep
from towpath.lab.emulation.energy import EnergyMeter
from towpath.lab.emulation.steps import carry_out
from towpath.lab.harness.journal import Entry, Journal
from towpath.lab.harness.stage import Stage
from towpath.lab.scenarios.emulated import EmulatedStage
from towpath.lab.scenarios.report import NodeEnergy
from towpath.lab.scenarios.sampler import Sampler
from towpath.tasks import end

POWER = "power_w"
"""Metric: what a node draws, watts; its entity is the node. Probes may ask for it."""


class EmulatedNodes:
    """The nodes under a run, from its beginning to its end."""

    def __init__(self, stage: Stage, sampler: Sampler, journal: Journal, seed: int = 0) -> None:
        """`seed` decides what nodes do by chance."""
        self._emulation = stage.emulation if isinstance(stage, EmulatedStage) else None
        self._sampler, self._journal, self._seed = sampler, journal, seed
        self._meter = EnergyMeter(self._emulation, self._note) if self._emulation else None

    @asynccontextmanager
    async def at_full_speed(self) -> AsyncIterator[None]:
        """Meanwhile nodes have all that the machine has: how a job starts is not what is emulated."""
        if self._emulation is None:
            yield
            return
        async with self._emulation.at_full_speed():
            yield

    @asynccontextmanager
    async def metered(self) -> AsyncIterator[None]:
        """Meter what nodes take meanwhile."""
        metering = asyncio.create_task(self._meter.run(), name="energy") if self._meter else None
        try:
            yield
        finally:
            await end([metering])

    async def carry_out(self, step: NodeStep) -> None:
        """Do what a step says about nodes, to its end. Raises `TowpathError`."""
        if self._emulation is None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the sites of this mesh are no emulated nodes",
                field="mesh.topology",
                allowed="a scenario that names a topology",
            )
        await carry_out(self._emulation, step, self._seed)

    async def revive(self) -> None:
        """Start the nodes that failed and were not started again. Raises `TowpathError`."""
        if self._emulation is not None:
            await self._emulation.revive()

    async def bring_back(self) -> None:
        """Start all nodes that are away, but spare ones: what is on them cannot be removed else. Raises
        `TowpathError`."""
        if self._emulation is not None:
            await self._emulation.bring_back()

    async def settle(self) -> None:
        """Bring all nodes to where their topology has them. Raises `TowpathError`."""
        if self._emulation is not None:
            await self._emulation.settle()

    @property
    def energy(self) -> dict[str, NodeEnergy]:
        """What each node took while it was metered."""
        if self._meter is None:
            return {}
        return {
            name: NodeEnergy(
                energy_j=round(meter.energy_j, 1),
                mean_w=round(meter.energy_j / meter.up_s, 2) if meter.up_s else 0.0,
                utilisation=round(meter.utilisation, 3),
                up_s=round(meter.up_s, 1),
            )
            for name, meter in self._meter.meters.items()
        }

    def _note(self, node: str, watts: float) -> None:
        self._sampler.take_metric(node, POWER, watts)
        self._journal.add(Entry.METRIC, entity=node, name=POWER, value=round(watts, 2))
