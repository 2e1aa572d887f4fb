"""The monitor as a process on a mesh of real servers, with the permissions it has there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator

import psutil
import pytest

from running.mesh import Mesh, running_mesh
from running.monitored_job import INPUT, NEW, OLD, MonitoredJob, job_on_mesh, result
from running.waiting import WITHIN_S, eventually
from towpath.contracts.commands import ConsistencyCheck

Process = asyncio.subprocess.Process


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


@pytest.fixture
async def job(mesh: Mesh) -> AsyncIterator[MonitoredJob]:
    async with job_on_mesh(mesh) as job:
        job.check = ConsistencyCheck.SERIALS
        await job.open_shadow()
        yield job


async def started(mesh: Mesh) -> Process:
    command = [sys.executable, "-m", "towpath.monitor", "--home", str(mesh.home.root)]
    with mesh.home.log("monitor").open("ab") as log:
        return await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)


async def ended(process: Process, number: signal.Signals) -> int:
    if process.returncode is None:
        os.kill(process.pid, number)
    return await asyncio.wait_for(process.wait(), WITHIN_S)


def window(epoch: int, after: int, through: int) -> tuple[str, bytes]:
    return f"counts/processed/{after}/{through}", result(epoch, through, after=after, through=through)


async def test_every_window_is_stored_once_when_the_monitor_is_killed_again_and_again(
    mesh: Mesh, job: MonitoredJob
) -> None:
    process = await started(mesh)
    try:
        await job.start()
        for n in range(60):
            await job.publish(OLD, window(OLD, n, n + 1), batch=f"1.{n}")
            if n % 20 == 19:
                await ended(process, signal.SIGKILL)
                process = await started(mesh)
                await job.start()
        await eventually(lambda: job.has([f"counts/processed/{n}/{n + 1}" for n in range(60)]))

        await job.publish(NEW, window(NEW, 50, 65))
        job.serials = {"jfk": {INPUT: 60}, "lga": {INPUT: 65}}
        found = await job.consistency()
        assert (found.offset, found.forwarded, job.recomputed) == (-5, 60, [(60, 65)])
        assert psutil.Process(process.pid).memory_info().rss < 150 * 1024**2

        assert await ended(process, signal.SIGTERM) == 0
    finally:
        await ended(process, signal.SIGKILL)
