"""Runs the load generator as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from load import LoadReport, LoadSpec

END_S = 60.0
"""Time limit for the last acknowledgements after a load was told to stop."""


class LoadFailed(RuntimeError):
    """The load could not be sent: the broker refused, or stopped answering."""


class Load:
    """A load under way. Use `load()`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def finish(self, within_s: float) -> LoadReport:
        """Wait until the load has sent everything. Raises `LoadFailed`, `TimeoutError`."""
        assert self._process.stdout is not None
        async with asyncio.timeout(within_s):
            line = await self._process.stdout.readline()
        if not line:
            raise LoadFailed("the load generator ended without a report")
        report = LoadReport(**json.loads(line))
        if report.error:
            raise LoadFailed(report.error)
        return report

    async def stop(self) -> LoadReport:
        """Send nothing more, wait for the last acknowledgements. Raises `LoadFailed`, `TimeoutError`."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return await self.finish(END_S)


@asynccontextmanager
async def load(spec: LoadSpec) -> AsyncIterator[Load]:
    """Run a load within the context, and never longer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("load.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches only this process, which ends the load in order.
    )
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(asdict(spec)).encode() + b"\n")
        await process.stdin.drain()
        yield Load(process)
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a child that still runs, and reap it."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def send(spec: LoadSpec, within_s: float) -> LoadReport:
    """Send a bounded load and wait for it. Raises `LoadFailed`, `TimeoutError`."""
    async with load(spec) as running:
        return await running.finish(within_s)
