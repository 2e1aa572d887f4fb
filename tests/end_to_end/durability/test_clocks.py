"""Machines whose clocks are set, and machines that sleep."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from running.command_line import MESH_TIMEOUT_S
from running.flow import move
from running.under_load import working
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.contracts.commands import StrategyName
from towpath.lab.faults.process_clock import Offsets, set_off
from towpath.lab.harness.stage import connected_stage

pytestmark = pytest.mark.timeout(3 * MESH_TIMEOUT_S)

HOUR_S, SLEEP_S = 3600, 600
HUB = ("hub", "redis", "coordinator", "monitor")
SITE = ("jfk-nats", "jfk-agent", "jfk-engine")


@pytest.fixture
def mesh(tmp_path: Path) -> Iterator[WholeMesh]:
    with whole_mesh(tmp_path) as running:
        yield running


def clocks(mesh: WholeMesh, names: Sequence[str], offsets: Offsets) -> None:
    """Set the clocks of processes, of engines with all their family."""
    running = mesh.pids()
    for name in names:
        leader = psutil.Process(running[name])
        for process in (leader, *leader.children(recursive=True)):
            with suppress(ProcessLookupError):
                set_off(process.pid, offsets)


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
async def test_results_when_clocks_are_set_and_jobs_fail_and_move_then_each_comes_once(
    mesh: WholeMesh, ahead_s: int
) -> None:
    async with connected_stage(mesh.at) as stage, working(stage, "set", counts_arrivals=True) as work:
        await work.grows()
        for names in (*((name,) for name in (*SITE, *HUB, "cloud-nats")), SITE, HUB):
            for offset_s, to in ((ahead_s, "cloud"), (0, "jfk")):
                clocks(mesh, names, Offsets(offset_s))
                if "jfk-nats" in names:
                    # What the engine has published last is published again.
                    os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
                await work.grows()
                await move(stage.bus, work.copy, to, StrategyName.GENERAL)
                await work.grows()


async def test_results_when_all_machines_have_slept_then_each_comes_once(mesh: WholeMesh) -> None:
    async with connected_stage(mesh.at) as stage, working(stage, "slept") as work:
        for times in range(1, 4):
            await work.grows()
            sleep(mesh, Offsets(times * SLEEP_S, times * SLEEP_S))
            os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
            await work.grows()
            await move(stage.bus, work.copy, "cloud" if times % 2 else "jfk", StrategyName.GENERAL)


def sleep(mesh: WholeMesh, slept: Offsets) -> None:
    """Suspend all machines, and let them wake up later: their clocks have gone on, but those of timeouts."""
    running = mesh.pids()
    leaders = [psutil.Process(pid) for pid in running.values()]
    everyone = list(dict.fromkeys(p for each in leaders for p in (each, *each.children(recursive=True))))
    for process in everyone:
        process.suspend()
    clocks(mesh, list(running), slept)
    for process in reversed(everyone):
        process.resume()


async def test_events_when_a_site_starts_in_1970_and_learns_the_time_later_then_are_processed_once(
    mesh: WholeMesh,
) -> None:
    async with connected_stage(mesh.at) as stage, working(stage, "early") as work:
        await work.grows()
        before = mesh.pids()
        for name in SITE:
            os.kill(before[name], signal.SIGKILL)

        def are_back() -> bool:
            now = mesh.pids()
            return all(now.get(name) not in (None, before[name]) for name in SITE[:2])

        await eventually(are_back)
        clocks(mesh, SITE[:2], Offsets(-round(time.time())))
        await work.grows()
        for offsets in (Offsets(-round(time.time())), Offsets()):
            clocks(mesh, SITE, offsets)
            os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
            await work.grows()
        await move(stage.bus, work.copy, "cloud", StrategyName.GENERAL)
