"""The demonstration when a signal stops it: it takes down the mesh that it brought up."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from running.waiting import WITHIN_S, eventually
from towpath.mesh import lifecycle
from towpath.mesh.home import Home

INTERRUPTED = 130


async def test_demo_when_told_to_end_then_leaves_no_process(tmp_path: Path) -> None:
    home = Home(tmp_path / "mesh")
    command = Path(sys.executable).with_name("towpath")
    process = await asyncio.create_subprocess_exec(command, "demo", "--output", tmp_path)
    try:

        async def engines_run() -> bool:
            names = {found.name for found in lifecycle.processes(home)} if home.run.exists() else set()
            return any(name.endswith("-engine") for name in names)

        await eventually(engines_run, within_s=3 * WITHIN_S)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), WITHIN_S) == INTERRUPTED
        assert lifecycle.processes(home) == []
    finally:
        if process.returncode is None:
            process.kill()
        await asyncio.to_thread(lifecycle.down, home)
