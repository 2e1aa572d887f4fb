"""One run of an application's process, as the gateway sees it: lines in, lines out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from typing import Any

import msgspec

from towpath.gateway.restarts import ending
from towpath.gateway.worker import Start
from towpath.gateways.kinds.kind import Kind, kind_named

ANSWER_WITHIN_S = 15.0
"""Time for a running application to take other properties. One event may take `cpu_s_per_event`."""

_LONGEST_LINE = 16 * 1024**2


class WorkerEnded(Exception):
    """The process has ended, or could not begin. Its text says why."""


class WorkerProcess:
    """A started process. Use it as a context: it does not outlive it."""

    def __init__(self, process: Process, kind: Kind) -> None:
        self._process = process
        self._kind = kind
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._is_ready = False

    @classmethod
    async def start(cls, start: Start) -> WorkerProcess:
        """Start a process and wait until it is ready. Raises `WorkerEnded`."""
        kind = kind_named(start.kind)
        ready_s = kind.ready_s(start.properties)
        command = (sys.executable, "-m", kind.module)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            limit=_LONGEST_LINE,
            env={**os.environ, "MALLOC_ARENA_MAX": "1"},
        )
        worker = cls(process, kind)
        try:
            worker._write({"start": start})
            async with asyncio.timeout(ready_s):
                line = await worker.read()
        except TimeoutError:
            await worker.kill()
            raise WorkerEnded(f"not ready within {ready_s:g} s") from None
        except BaseException:
            await worker.kill()
            raise
        if "refused" in line:
            await worker.kill()
            raise WorkerEnded(line["refused"])
        return worker

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    async def send(self, number: int, event: dict[str, Any]) -> None:
        """Hand an event over. Waits while the process is slow. Raises `WorkerEnded`."""
        self._write({"n": number, "event": event})
        with contextlib.suppress(ConnectionError):
            assert self._process.stdin is not None
            await self._process.stdin.drain()

    async def configure(self, properties: dict[str, Any]) -> None:
        """Give the running application other properties. Raises `WorkerEnded` if it does not take them."""
        self._write({"configure": properties})
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                answer = await self._answers.get()
        except TimeoutError:
            raise WorkerEnded(f"no answer within {ANSWER_WITHIN_S:g} s") from None
        if "refused" in answer:
            raise WorkerEnded(answer["refused"])

    def confirm(self, number: int) -> None:
        """Tell it that the results of a report with this number are kept."""
        self._write({"confirmed": number})

    def _write(self, line: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(line) + b"\n")

    async def read(self) -> dict[str, Any]:
        """Return the next line. Answers to `configure` go to their caller. Raises `WorkerEnded`."""
        while line := await self._line():
            read: dict[str, Any] = msgspec.json.decode(line)
            if self._is_ready and "results" not in read:
                self._answers.put_nowait(read)
                continue
            self._is_ready = True
            return read
        self._answers.put_nowait({"refused": "the application has ended"})
        raise WorkerEnded(ending(await self._process.wait()))

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        try:
            return await self._process.stdout.readline()
        except ValueError:  # asyncio's word for a line without an end.
            raise WorkerEnded(f"a report of it is longer than {_LONGEST_LINE >> 20} MiB") from None

    async def kill(self) -> None:
        """End the process, if it has not ended, and reap it. One that has others ends them first."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._kind.end_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._kind.end_s):
                    await self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
