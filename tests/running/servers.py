"""Server processes for tests, each on a free port. Tests kill and restart them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from running.waiting import WITHIN_S
from towpath.mesh import ports


def free_port() -> int:
    """Return a port that no process listens on, and that no outgoing connection takes."""
    return ports.free_port(set())


@dataclass
class Server:
    """A server process that can be killed and restarted on the same data."""

    command: list[str]
    port: int
    process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """Address for NATS clients."""
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        # A file that is too large is an error to the server, not the end of it, as under the supervisor.
        self.process = await asyncio.create_subprocess_exec(
            *self.command,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            restore_signals=False,
        )
        async with asyncio.timeout(WITHIN_S):
            while not await self._listens():
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()

    async def _listens(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True
