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

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, numbers, stored, windows
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, MigrateJob, OperationState, StrategyName
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobSpec
from towpath.lab.faults.process_clock import Offsets, set_off
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(3 * MESH_TIMEOUT_S)

HOUR_S, SLEEP_S = 3600, 600
GOES_ON_S = 120.0
"""For results to come again after a clock was set."""

JOBS = ("copy", "counts")
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


async def go_on(bus: Bus) -> None:
    """Wait until both jobs have published more than they have now."""
    before = {name: await last_serial(bus.connection, "jfk", f"OUT_{name}") for name in JOBS}

    async def grown() -> bool:
        return all([await last_serial(bus.connection, "jfk", f"OUT_{n}") > before[n] + KEYS for n in JOBS])

    await eventually(grown, GOES_ON_S)


async def check(bus: Bus, sent: int) -> None:
    """Wait for the results of so many events, and compare each."""

    async def is_complete() -> bool:
        return await last_serial(bus.connection, "jfk", "OUT_copy") >= sent

    await eventually(is_complete, GOES_ON_S)
    assert await numbers(bus, "OUT_copy") == list(range(sent))

    async def are_closed() -> bool:
        return await last_serial(bus.connection, "jfk", "OUT_counts") >= (sent // PER_SECOND - 6) * KEYS

    await eventually(are_closed, GOES_ON_S)
    found = await stored(bus, "OUT_counts")
    assert set(windows(found).values()) == {1}
    assert {result["values"]["events"] for result in found} == {PER_SECOND // KEYS}


async def move(bus: Bus, name: str, to: str) -> None:
    """Move a job, again if the target did not catch up on a busy machine."""
    while True:
        try:
            await bus.request(MigrateJob(job=name, to=to, strategy=StrategyName.GENERAL), deadline_s=STEP_S)
            return
        except TowpathError as error:
            if OperationState.ROLLED_BACK not in error.detail.message:
                raise


@pytest.mark.parametrize("ahead_s", [HOUR_S, -HOUR_S])
async def test_results_when_clocks_are_set_and_jobs_fail_and_move_then_each_comes_once(
    mesh: WholeMesh, ahead_s: int
) -> None:
    async with open_bus(mesh.at) as bus:
        for spec in (job("copy", "site/raw", "raw/copy"), job("counts", "site/raw", "raw/counts", WINDOW)):
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        async with flowing(mesh.state) as load:
            await go_on(bus)
            for names in (*((name,) for name in (*SITE, *HUB, "cloud-nats")), SITE, HUB):
                for offset_s, to in ((ahead_s, "cloud"), (0, "jfk")):
                    clocks(mesh, names, Offsets(offset_s))
                    if "jfk-nats" in names:
                        # What the engine has published last is published again.
                        os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
                    await go_on(bus)
                    await move(bus, "copy", to)
                    await go_on(bus)
        await check(bus, load.sent)


async def test_results_when_all_machines_have_slept_then_each_comes_once(mesh: WholeMesh) -> None:
    async with open_bus(mesh.at) as bus:
        for spec in (job("copy", "site/raw", "raw/copy"), job("counts", "site/raw", "raw/counts", WINDOW)):
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        async with flowing(mesh.state) as load:
            for times in range(1, 4):
                await go_on(bus)
                sleep(mesh, Offsets(times * SLEEP_S, times * SLEEP_S))
                os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
                await go_on(bus)
                await move(bus, "copy", "cloud" if times % 2 else "jfk")
        await check(bus, load.sent)


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
    async with open_bus(mesh.at) as bus:
        for spec in (job("copy", "site/raw", "raw/copy"), job("counts", "site/raw", "raw/counts", WINDOW)):
            await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)
        async with flowing(mesh.state) as load:
            await go_on(bus)
        before = mesh.pids()
        for name in SITE:
            os.kill(before[name], signal.SIGKILL)

        def are_back() -> bool:
            now = mesh.pids()
            return all(now.get(name) not in (None, before[name]) for name in SITE[:2])

        await eventually(are_back)
        clocks(mesh, SITE[:2], Offsets(-round(time.time())))
        async with flowing(mesh.state, first=load.sent) as second:
            await go_on(bus)
            clocks(mesh, SITE, Offsets(-round(time.time())))
            os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
            await go_on(bus)
            clocks(mesh, SITE, Offsets())
            os.kill(mesh.pids()["jfk-engine"], signal.SIGKILL)
            await go_on(bus)
            await move(bus, "copy", "cloud")
        await check(bus, second.sent)
