"""Runs the subscriber as a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from load_process import end
from measured_mesh import MeasuredMesh

READY_S = 15.0


class Subscription:
    """A subscriber under way. Use `subscription()`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ready(self) -> None:
        """Wait until the broker has taken the subscription. Raises `TimeoutError`, `ConnectionError`."""
        async with asyncio.timeout(READY_S):
            if await self._line() != b"ready\n":
                raise ConnectionError("the subscriber was refused")

    async def report(self, expected: int, within_s: float) -> dict[str, Any]:
        """Send the expected number of results, get the report. Raises `TimeoutError`, `ConnectionError`."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"%d\n" % expected)
        async with asyncio.timeout(within_s):
            line = await self._line()
        if not line:
            raise ConnectionError("the subscriber ended without a report")
        return json.loads(line)

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        return await self._process.stdout.readline()


@asynccontextmanager
async def subscription(
    mesh: MeasuredMesh, site: str, topic: str, keep: Path | None = None
) -> AsyncIterator[Subscription]:
    """Run a QoS 1 subscriber at a site, as its device user. With `keep`, it writes the results there."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("subscriber.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    access = mesh.state.site(site)
    settings = {
        "host": access.mqtt_host,
        "port": access.mqtt_port,
        "user": access.device.user,
        "password": access.device.password,
        "client_id": mesh.fresh_name("subscriber"),
        "topic": topic,
        **({} if keep is None else {"keep": str(keep)}),
    }
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        running = Subscription(process)
        await running.ready()
        yield running
    finally:
        await end(process)
