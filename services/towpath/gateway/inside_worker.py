"""An application inside the gateway's own process, without limits: for simulated gateways alone.

It has the interface of `WorkerProcess`. Two hundred gateways then need no two hundred processes for their
applications. Code of packages does not run here.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from towpath import tasks
from towpath.gateway.worker import Start
from towpath.gateway.worker_process import WorkerEnded
from towpath.gateways.operators.chain import OPERATOR, Chain
from towpath.gateways.refusal import Refusal

TICK_S = 0.25
"""Time between two looks for windows that end."""


class InsideWorker:
    """Runs a chain of operators in this process."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._done = self._reported = 0
        self._ticking = asyncio.create_task(self._tick())

    @classmethod
    async def start(cls, start: Start) -> InsideWorker:
        """Begin. Raises `WorkerEnded` for a package with code."""
        if start.kind != "operators":
            raise WorkerEnded(f"applications of the kind {start.kind} run apart only")
        if any(each[OPERATOR] == "python" for each in start.operators):
            raise WorkerEnded("code of packages runs apart only")
        chain = Chain(start.operators, start.properties)
        if start.state is not None:
            chain.restore(start.state)
        return cls(chain)

    @property
    def pid(self) -> int:
        """Number of the gateway's own process."""
        return os.getpid()

    async def send(self, number: int, event: dict[str, Any]) -> None:
        """Take an event."""
        self._done = number
        self._report(self._chain.take(event, time.time()))
        await asyncio.sleep(0)

    async def configure(self, properties: dict[str, Any]) -> None:
        """Take other properties."""
        try:
            self._chain.configure(properties)
        except Refusal as refusal:
            raise WorkerEnded(str(refusal)) from refusal

    async def read(self) -> dict[str, Any]:
        """Return the next report of results."""
        return await self._lines.get()

    def confirm(self, number: int) -> None:
        """Ignore it: no report asks for it."""

    async def kill(self) -> None:
        """End."""
        await tasks.end([self._ticking])

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._report(self._chain.tick(time.time()))

    def _report(self, results: list[dict[str, Any]]) -> None:
        if results or self._done > self._reported:
            line = {"results": results, "done": self._done, "state": self._chain.state()}
            self._reported = self._done
            self._lines.put_nowait(
                line | {"rejected": self._chain.rejected, "reason": self._chain.last_rejection}
            )
