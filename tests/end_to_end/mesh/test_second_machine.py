"""A machine with nothing but its bundle joins a mesh, takes a job over, gives it back, and leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S, CommandLine
from running.flow import PER_SECOND, flowing, job, move, numbers
from running.waiting import eventually
from running.whole_mesh import WholeMesh
from towpath.bus import Bus
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob, StrategyName
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

OUTPUT = "OUT_afloat"


async def through(bus: Bus, sent: int) -> bool:
    return await last_serial(bus.connection, "jfk", OUTPUT) >= sent


async def test_job_when_it_moves_to_a_machine_that_joined_and_back_then_each_result_comes_once(
    shared_mesh: WholeMesh, tmp_path: Path
) -> None:
    bundle = tmp_path / "barge.bundle"
    shared_mesh.succeed("site", "add", "barge", "--hub", "127.0.0.1", "--into", str(bundle))
    machine = CommandLine(tmp_path / "machine")
    try:
        machine.succeed("join", str(bundle))
        again = machine.run("join", str(bundle))
        async with open_bus(shared_mesh.at) as bus:
            spec = JobSpec.model_validate(job("afloat", "site/afloat", "afloat", None))
            await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)
            async with flowing(shared_mesh.state, "site/afloat") as load:
                await eventually(lambda: through(bus, PER_SECOND))
                for site in ("barge", "jfk"):
                    await move(bus, "afloat", site, StrategyName.HANDOVER)
                    moment = load.sent + PER_SECOND
                    await eventually(lambda moment=moment: through(bus, moment))
            await eventually(lambda: through(bus, load.sent))
            passed_on = await numbers(bus, OUTPUT)
            await bus.request(RemoveJob(job="afloat", purge=True), deadline_s=STEP_S)
        machine.succeed("leave")
        shared_mesh.succeed("site", "remove", "barge")
    finally:
        machine.run("down")

    assert again.returncode == 0, "a repetition goes on where it stands"
    assert sorted(passed_on) == [*range(load.sent)]
    refused = CommandLine(tmp_path / "thief").run("join", str(bundle), "--within", "5")
    assert refused.returncode != 0
