"""The power of a machine fails: what was not on its disk is gone.

TOWPATH_CUTS=50 makes a measurement of the tests. They need `fuse3` and `libfuse2` of Debian.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count, takewhile
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import WINDOW, event, job, numbers, stored
from running.kills import Numbered, kept_through
from running.mesh import Mesh, running_mesh
from running.power import Disk, cut, disk_at
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.job import JobSpec
from towpath.lab.workload.replay import Replay
from towpath.mesh.home import Home
from towpath.streams.pages import last_serial, read_after

CUTS = int(os.environ.get("TOWPATH_CUTS", "3"))

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S + 60 * CUTS)

RECOVERED_S = 180.0
"""For a site to start all its processes, while its disk is slow."""

PER_SECOND = 300


@pytest.fixture
def disk(tmp_path: Path, site: str) -> Iterator[Disk]:
    with disk_at(Home(tmp_path / "servers").nats(site), tmp_path / "disk") as mounted:
        yield mounted


@pytest.fixture
def mesh(tmp_path: Path, disk: Disk) -> Iterator[Mesh]:
    with running_mesh(tmp_path / "servers") as running:
        yield running


@pytest.mark.parametrize(("site", "durable"), [("lga", True), ("jfk", False)], ids=["power-safe", "fast"])
async def test_event_when_acknowledged_and_the_power_fails_then_is_kept_by_a_power_safe_site_only(
    mesh: Mesh, disk: Disk, site: str, durable: bool
) -> None:
    async def fail() -> None:
        await mesh.kill(f"{site}-nats")
        await asyncio.to_thread(disk.cut)
        await mesh.start(f"{site}-nats")

    cuts, a_cut = (CUTS, 8_000) if durable else (1, 40_000)
    kept = await kept_through(mesh, site, fail, events=cuts * a_cut, strikes=cuts, seed=3)
    print(f"{cuts} cuts, {cuts * a_cut:,} events acknowledged, {len(kept.lost)} lost, {kept.again} again")
    assert kept.report.acknowledged == cuts * a_cut
    assert (not kept.lost) == durable, "and the disk does forget"
    assert kept.in_order


@pytest.fixture
def power_safe(tmp_path: Path) -> Iterator[tuple[WholeMesh, dict[str, list[Disk]]]]:
    """Run a mesh of two power-safe sites. All that one of them stores, and the hub, is on disks."""
    home = Home(tmp_path / "home")
    places = {"jfk": [home.nats("jfk"), home.jobs("jfk")], "hub": [home.hub, home.redis]}
    with ExitStack() as stack:
        disks = {
            machine: [stack.enter_context(disk_at(place, tmp_path / f"disk-{place.name}")) for place in its]
            for machine, its in places.items()
        }
        yield stack.enter_context(whole_mesh(tmp_path, each='durability = "power-safe"\n')), disks


async def test_jobs_when_the_power_of_a_site_fails_then_each_result_comes_once_and_right(
    power_safe: tuple[WholeMesh, dict[str, list[Disk]]],
) -> None:
    mesh, disks = power_safe
    chance, access = random.Random(4), mesh.state.site("jfk")
    async with open_bus(mesh.at) as bus:
        for spec in (job("copy", "site/raw", "raw/copy"), job("counts", "site/raw", "raw/counts", WINDOW)):
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        device = access.device
        replay = Replay(
            access.mqtt_host,
            access.mqtt_port,
            device.user,
            device.password,
            "site/raw",
            "device",
            rate=PER_SECOND,
            give_up_after_s=RECOVERED_S,
        )
        is_over = asyncio.Event()
        events = takewhile(lambda _: not is_over.is_set(), (Numbered(event(n)) for n in count()))
        sent = asyncio.create_task(replay.run(events))
        for _ in range(CUTS):
            before = await eventually(lambda: results(bus), RECOVERED_S)
            await eventually(lambda before=before: grown(bus, before), RECOVERED_S)
            await asyncio.sleep(chance.uniform(0, 3))
            await asyncio.to_thread(cut, mesh, "jfk", *disks["jfk"])
        is_over.set()
        acknowledged = (await sent).acknowledged
        taken = [json.loads(m.body) for m in await read_after(bus.connection, "jfk", IN_STREAM, 0)]
        numbers_taken = [each["n"] for each in taken]
        assert set(numbers_taken) == set(range(acknowledged)), "what was acknowledged is kept"

        async def is_complete() -> bool:
            return (await results(bus)).get("OUT_copy", 0) >= len(taken)

        await eventually(is_complete, RECOVERED_S)
        assert await numbers(bus, "OUT_copy") == numbers_taken
        expected = Counter((each["at"][:19], each["key"]) for each in taken)
        found = [(r["window"]["start"][:19], r["key"]["key"]) for r in await stored(bus, "OUT_counts")]
        assert len(found) == len(set(found))
        print(f"{CUTS} cuts, {acknowledged:,} events acknowledged, {len(taken):,} kept, {len(found)} windows")
        for result in await stored(bus, "OUT_counts"):
            window = result["window"]["start"][:19], result["key"]["key"]
            assert result["values"]["events"] == expected[window]


async def results(bus: Bus) -> dict[str, int]:
    """Return how many results each job has published; none while the site is away."""
    with contextlib.suppress(TimeoutError):
        return {name: await last_serial(bus.connection, "jfk", name) for name in ("OUT_copy", "OUT_counts")}
    return {}


async def grown(bus: Bus, before: dict[str, int]) -> bool:
    """Tell if both jobs have published more than they had."""
    now = await results(bus)
    return bool(now) and all(now[name] > before[name] for name in now)
