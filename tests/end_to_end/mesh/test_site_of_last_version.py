"""A site still runs the last version of Towpath, and everything else runs this one, as in an upgrade."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from running.command_line import MESH_TIMEOUT_S, PARTS, STEP_S, CommandLine
from running.flow import PER_SECOND, WINDOW, flowing, job, move, numbers, stored, windows
from running.places import GOLDEN, ROOT
from running.waiting import eventually, until
from running.whole_mesh import WholeMesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob, RemoveJob, StrategyName
from towpath.contracts.job import JobSpec
from towpath.contracts.standby import ListStandbys
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

COPIED_S = 180.0


@pytest.fixture
def last_version(tmp_path: Path) -> Path:
    """Return a directory with the program that wrote the golden files."""
    commit = (max(GOLDEN.iterdir()) / "commit").read_text().strip()
    kept = subprocess.run(["git", "archive", commit, *PARTS], cwd=ROOT, capture_output=True)
    if kept.returncode:
        pytest.skip("this clone has no history that reaches back to the last version")
    with tarfile.open(fileobj=BytesIO(kept.stdout)) as archive:
        archive.extractall(tmp_path / "last", filter="data")
    return tmp_path / "last"


@pytest.fixture
def barge(shared_mesh: WholeMesh, tmp_path: Path, last_version: Path) -> Iterator[CommandLine]:
    """A machine with the last version, which has joined as the site barge."""
    bundle = tmp_path / "barge.bundle"
    shared_mesh.succeed("site", "add", "barge", "--hub", "127.0.0.1", "--into", str(bundle))
    machine = CommandLine(tmp_path / "machine", last_version)
    try:
        joined = machine.run("join", str(bundle))
        assert joined.returncode == 0, joined.stderr
        yield machine
        until(lambda: machine.run("leave").returncode == 0, COPIED_S)  # It is told to forget its copy first.
        shared_mesh.succeed("site", "remove", "barge")
    finally:
        machine.run("down")


async def test_jobs_when_a_site_runs_the_last_version_then_move_there_and_back_and_have_standbys_there(
    shared_mesh: WholeMesh, barge: CommandLine
) -> None:
    standby = {"site": "barge", "every_s": 1}
    moved = JobSpec.model_validate(job("versions", "site/versions", "versions/copied"))
    kept = JobSpec.model_validate(
        job("counted", "site/versions", "versions/counted", WINDOW, standby=standby)
    )
    async with open_bus(shared_mesh.at) as bus:
        for spec in (moved, kept):
            await bus.request(DeployJob(spec=spec), deadline_s=STEP_S)

        async def has_a_copy() -> bool:
            found = (await bus.request(ListStandbys(), deadline_s=STEP_S)).standbys
            return any(each.job == "counted" and each.behind_s is not None for each in found)

        async with flowing(shared_mesh.state, "site/versions") as load:
            await eventually(has_a_copy, COPIED_S)
            # Agents of 0.1.0 do not let a job move to its own standby, so the other job moves.
            for to in ("barge", "jfk"):
                await move(bus, "versions", to, StrategyName.HANDOVER)
            sent = load.sent + PER_SECOND

            async def is_through() -> bool:
                return await last_serial(bus.connection, "jfk", "OUT_versions") >= sent

            await eventually(is_through, COPIED_S)

        async def all_copied() -> bool:
            return await last_serial(bus.connection, "jfk", "OUT_versions") >= load.sent

        await eventually(all_copied, COPIED_S)
        copied, counted = await numbers(bus, "OUT_versions"), await stored(bus, "OUT_counted")
        for name in ("versions", "counted"):
            await bus.request(RemoveJob(job=name, purge=True), deadline_s=STEP_S)
    assert sorted(copied) == [*range(load.sent)]
    assert set(windows(counted).values()) == {1}
    assert {result["values"]["events"] for result in counted} == {PER_SECOND // 5}
