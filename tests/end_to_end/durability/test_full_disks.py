"""The disk of the hub, of Redis, or of a site's checkpoints is full: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from running.command_line import MESH_TIMEOUT_S
from running.power import PowerSafeMesh
from running.under_load import Operations, working
from towpath.contracts.events import EVENTS_STREAM
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.harness.stage import connected_stage
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(2 * MESH_TIMEOUT_S)

FULL_S = 8.0
"""Several micro-batches and steps of operations, and restarts of a Redis that ends itself."""


async def test_operations_and_results_when_a_disk_is_full_for_a_time_then_nothing_acknowledged_is_lost(
    power_safe: PowerSafeMesh,
) -> None:
    async with connected_stage(power_safe.mesh.at) as stage, working(stage, "full") as work:
        operations = Operations(work, random.Random(6))
        for disk in ("jobs", "redis", "hub"):
            await work.grows()
            async with operations.under_way():
                await asyncio.sleep(0.5)
                power_safe.disks[disk].fill()
                try:
                    await asyncio.sleep(FULL_S)
                finally:
                    power_safe.disks[disk].make_room()
            await operations.judge()
        await work.grows()
        kept = await last_serial(stage.bus.connection, HUB_SCOPE, EVENTS_STREAM)
        await operations.end()
        now = await last_serial(stage.bus.connection, HUB_SCOPE, EVENTS_STREAM)
        assert now > kept, "the hub keeps events again"
    print(f"{operations.accepted} operations accepted")
