"""Processes of a mesh are killed while events flow; every result comes once all the same."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import KEYS, PER_SECOND, WINDOW, flowing, job, stored, windows
from running.promises import promise
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = [pytest.mark.timeout(MESH_TIMEOUT_S), pytest.mark.kills, promise("exactly once")]

RESTARTED_S = 180.0
"""Time limit for an engine to start a JVM and catch up while other tests run."""


async def test_windows_when_engine_agent_and_coordinator_are_killed_at_once_then_each_comes_once(
    shared_mesh: WholeMesh,
) -> None:
    spec = job("killed", "site/killed", "killed/windows", WINDOW, site="cloud")
    async with open_bus(shared_mesh.at) as bus:
        await bus.request(DeployJob(spec=JobSpec.model_validate(spec)), deadline_s=STEP_S)

        async def results() -> int:
            return await last_serial(bus.connection, "jfk", "OUT_killed")

        async def publishes() -> bool:
            return await results() > KEYS

        async with flowing(shared_mesh.state, "site/killed") as load:
            await eventually(publishes)
            processes = await asyncio.to_thread(shared_mesh.pids)
            for name in ("cloud-engine", "cloud-agent", "coordinator"):
                os.kill(processes[name], signal.SIGKILL)
            before = await results()

            async def publishes_again() -> bool:
                return await results() > before + 3 * KEYS

            await eventually(publishes_again, RESTARTED_S)
        closed = load.sent // PER_SECOND - 6

        async def all_closed() -> bool:
            return await results() >= closed * KEYS

        await eventually(all_closed)
        found = await stored(bus, "OUT_killed")
        await bus.request(RemoveJob(job="killed", purge=True), deadline_s=STEP_S)
    assert set(windows(found).values()) == {1}
    assert {result["values"]["events"] for result in found} == {PER_SECOND // KEYS}
