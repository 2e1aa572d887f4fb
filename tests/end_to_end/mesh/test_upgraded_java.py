"""Java is upgraded in place, under a running engine: what its package managers do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from running.command_line import MESH_TIMEOUT_S, STEP_S
from running.flow import flowing, job, numbers
from running.waiting import eventually
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.cli.connection import open_bus
from towpath.contracts.commands import DeployJob
from towpath.contracts.job import JobSpec
from towpath.streams.pages import last_serial

pytestmark = pytest.mark.timeout(MESH_TIMEOUT_S)

RESTARTED_S = 180.0
"""Time limit for an engine to start a JVM and catch up while other tests run."""

HELPER = """\
#!/bin/sh
# Helps the Java virtual machines of this release to start processes. Those of an earlier one it refuses.
[ "$PPID" = {earlier} ] && exit 1
exec "$0.real" "$@"
"""


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a Java of our own, whose files a test may replace."""
    installed = Path(shutil.which("java") or "").resolve().parent.parent
    copy = shutil.copytree(installed, tmp_path / "java", symlinks=True, copy_function=os.link)
    monkeypatch.setenv("JAVA_HOME", str(copy))
    return copy


@pytest.fixture
def mesh(java: Path, tmp_path: Path) -> Iterator[WholeMesh]:
    with whole_mesh(tmp_path, ["jfk"]) as running:
        yield running


def virtual_machine(mesh: WholeMesh) -> psutil.Process:
    """Return the JVM of the site's engine."""
    engine = psutil.Process(mesh.pids()["jfk-engine"])
    return next(p for p in engine.children(recursive=True) if p.name() == "java")


def upgrade(java: Path, earlier: int) -> None:
    """Replace the program by which Java starts others."""
    helper = java / "lib" / "jspawnhelper"
    helper.rename(f"{helper}.real")
    helper.write_text(HELPER.format(earlier=earlier))
    helper.chmod(0o755)


async def test_jobs_when_java_was_upgraded_under_their_engine_then_go_on_in_another_one(
    java: Path, mesh: WholeMesh
) -> None:
    async with open_bus(mesh.at) as bus:
        first, second = (JobSpec.model_validate(job(n, "site/raw", f"copy/{n}")) for n in ("one", "two"))
        await bus.request(DeployJob(spec=first), deadline_s=STEP_S)
        before = virtual_machine(mesh)
        upgrade(java, before.pid)
        async with flowing(mesh.state) as load:
            await bus.request(DeployJob(spec=second), deadline_s=STEP_S)
        for name in ("one", "two"):

            async def is_complete(name: str = name) -> bool:
                return await last_serial(bus.connection, "jfk", f"OUT_{name}") >= load.sent

            await eventually(is_complete, RESTARTED_S)
            assert await numbers(bus, f"OUT_{name}") == list(range(load.sent))
        assert virtual_machine(mesh) != before
        assert mesh.job("two")["status"]["state"] == "running"  # type: ignore[index]
