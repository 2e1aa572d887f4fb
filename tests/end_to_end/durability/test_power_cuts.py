"""The power of a machine fails: what was not on its disk is gone.

TOWPATH_CUTS=50 makes a measurement of the tests. They need `fuse3` and `libfuse2` of Debian.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S
from running.kills import kept_through
from running.mesh import Mesh, running_mesh
from running.power import PowerSafeMesh, disk_at
from running.under_load import Operations, working
from towpath.contracts.message import HUB_SCOPE
from towpath.lab.guard.machine import Machine
from towpath.lab.harness.stage import connected_stage
from towpath.lab.power.mount import Mount
from towpath.mesh.home import Home

CUTS = int(os.environ.get("TOWPATH_CUTS", "3"))

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * CUTS)

CUT_WITHIN_S = 3.0
"""The power fails at a random moment of so long a time: the longest of a deployment, or of half a move."""


@pytest.fixture
def disk(tmp_path: Path, site: str) -> Iterator[Mount]:
    with disk_at(Home(tmp_path / "servers").nats(site), tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def mesh(tmp_path: Path, disk: Mount) -> Iterator[Mesh]:
    with running_mesh(tmp_path / "servers") as running:
        yield running


@pytest.mark.parametrize(("site", "durable"), [("lga", True), ("jfk", False)], ids=["power-safe", "fast"])
async def test_event_when_acknowledged_and_the_power_fails_then_is_kept_by_a_power_safe_site_only(
    mesh: Mesh, disk: Mount, site: str, durable: bool
) -> None:
    async def fail() -> None:
        await mesh.kill(f"{site}-nats")
        await asyncio.to_thread(disk.cut_power)
        await mesh.start(f"{site}-nats")

    cuts, a_cut = (CUTS, 8_000) if durable else (1, 40_000)
    kept = await kept_through(mesh, site, fail, events=cuts * a_cut, strikes=cuts, seed=3)
    print(f"{cuts} cuts, {cuts * a_cut:,} events acknowledged, {len(kept.lost)} lost, {kept.again} again")
    assert kept.report.acknowledged == cuts * a_cut
    assert (not kept.lost) == durable, "and the disk does forget"
    assert kept.in_order


async def test_jobs_when_the_power_of_a_site_fails_then_each_result_comes_once_and_right(
    power_safe: PowerSafeMesh,
) -> None:
    chance, site = random.Random(4), Machine(power_safe.mesh.at, "jfk")
    async with connected_stage(power_safe.mesh.at) as stage, working(stage, "site-cut") as work:
        for _ in range(CUTS):
            await work.grows()
            await asyncio.sleep(chance.uniform(0, CUT_WITHIN_S))
            await asyncio.to_thread(site.cut_power)


async def test_operations_when_the_power_of_the_hub_fails_then_those_accepted_are_finished_or_undone(
    power_safe: PowerSafeMesh,
) -> None:
    chance, hub = random.Random(5), Machine(power_safe.mesh.at, HUB_SCOPE)
    async with connected_stage(power_safe.mesh.at) as stage, working(stage, "hub-cut") as work:
        operations, before = Operations(work, chance), 0
        for _ in range(CUTS):
            await work.grows()
            accepted = operations.accepted
            async with operations.under_way():
                await asyncio.sleep(chance.uniform(0, CUT_WITHIN_S))
                before += operations.accepted - accepted
                await asyncio.to_thread(hub.cut_power)
            await operations.judge()
        await operations.end()
    print(f"{CUTS} cuts, {operations.accepted} operations accepted, {before} of them before a cut")
