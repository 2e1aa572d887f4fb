"""Hand events to the job, and take its results. Both survive a kill of the job, of Spark and of the gateway.

Events come from the gateway. They are written to a log of their own before the gateway acknowledges them to
the broker. The job reads them by number, and a number is forgotten when Spark has committed the micro-batch
that it was in.

A micro-batch's results go to the gateway, which keeps them and then writes the batch's number down as the
application's state. Only then may Spark commit the batch. So a batch that runs again after a kill is known.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from towpath.gateways.result_log import ResultLog

log = logging.getLogger(__name__)

INPUT_MB = 64
"""Beyond three quarters of it events are not taken, and the broker keeps them."""

LONGEST_LINE = 64 * 1024**2

Report = Callable[[dict[str, Any]], None]
"""Sends a line to the gateway."""


class JobFeed:
    """The input log, and the socket that the job connects to."""

    def __init__(self, directory: Path, session: str, report: Report) -> None:
        """`session`: the gateway's numbers of events begin again with another one."""
        self.name = f"towpath-{os.getpid()}-{token_hex(8)}"
        """Name of the socket, in Linux's name space of sockets without files."""
        self._log = ResultLog(directory, budget_bytes=INPUT_MB * 1024**2)
        self._report = report
        self._checkpoint = ""
        self._batch = -1
        """Number of the last micro-batch whose results went to the gateway."""
        self._keeping: dict[int, asyncio.Future[None]] = {}
        """Micro-batch → set when its results are kept."""
        waiting = self._log.read(0, 1)
        self._committed = waiting[0][0] - 1 if waiting else self._log.last
        self._held: list[tuple[int, dict[str, Any]]] = []
        self._session = session.encode()
        self._done = _last_of(self._session, self._log.newest())
        self.started = asyncio.Event()
        """Set once the job runs."""
        self.ready = asyncio.Event()
        """To be set when the gateway may get results."""
        self._server: asyncio.Server | None = None

    @property
    def identity(self) -> str:
        """Name of the input log, which begins again with number 1 if it was lost."""
        return self._log.identity

    def go_on(self, state: list[Any] | None, checkpoint: Path) -> None:
        """Take the state of a former run. A job whose checkpoint is new counts its micro-batches from 0."""
        self._checkpoint = str(checkpoint)
        if state is not None and state[0] == self._checkpoint and checkpoint.exists():
            self._batch = state[1]

    async def open(self) -> None:
        """Wait for the job's connections."""
        self._server = await asyncio.start_unix_server(self._serve, f"\0{self.name}", limit=LONGEST_LINE)

    async def close(self) -> None:
        """End."""
        if self._server is not None:
            self._server.close()
        self._log.close()

    def take(self, number: int, event: dict[str, Any]) -> None:
        """Take an event. `store` writes it down, unless a killed run has done so."""
        if number > self._done:
            self._held.append((number, {**event, "arrived": time.time()}))

    def store(self) -> None:
        """Write down as many events as there is room for, and let the gateway acknowledge them.

        Raises `OSError`.
        """
        room, entries, waiting = INPUT_MB * 1024**2 * 3 // 4, list[bytes](), self._log.waiting()
        if waiting:  # Else all that is there may go.
            room -= self._log.bytes
        for number, event in self._held:
            entry = b"%s %d %s" % (self._session, number, msgspec.json.encode(event))
            room -= len(entry)
            if room < 0 and (waiting or entries):
                break  # The log would drop the oldest, which are acknowledged and not processed.
            entries.append(entry)
        if not entries:
            return
        self._log.append(entries)
        self._log.sync()
        self._done = self._held[len(entries) - 1][0]
        del self._held[: len(entries)]
        self.tell()

    def tell(self, results: list[dict[str, Any]] | None = None, **more: Any) -> None:
        """Report progress to the gateway, with the number of the last micro-batch as state."""
        line = {"results": results or [], "done": self._done, "state": [self._checkpoint, self._batch]}
        self._report({**line, "rejected": 0, "reason": None, **more})

    def confirmed(self, batch: int) -> None:
        """Note that the results of a micro-batch are kept."""
        if (keeping := self._keeping.pop(batch, None)) is not None:
            keeping.set_result(None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while _is_own(writer) and (line := await reader.readline()):
                writer.write(msgspec.json.encode(await self._answer(msgspec.json.decode(line))) + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        except OSError as error:
            log.error("the job has no answer, as the input's log cannot be written: %s", error)
        finally:
            writer.close()

    async def _answer(self, asked: dict[str, Any]) -> Any:
        match asked:
            case {"read": after, "most": most}:
                return [
                    (number, entry.split(b" ", 2)[2].decode())
                    for number, entry in self._log.read(after, most)
                ]
            case {"first": True}:
                return self._committed
            case {"commit": through}:
                self._commit(through)
            case {"batch": batch, "results": results}:
                await self._hand_over(batch, results)
            case {"started": True}:
                self.started.set()
        return None

    def _commit(self, through: int) -> None:
        for number in range(self._committed + 1, through + 1):
            self._log.delivered(number)
        self._committed = max(self._committed, through)
        self._log.save()
        self.store()

    async def _hand_over(self, batch: int, results: list[dict[str, Any]]) -> None:
        """Return when the gateway has kept the results of a micro-batch. Those of an old one are not new."""
        await self.ready.wait()
        if batch > self._batch:
            self._batch = batch
            self._keeping[batch] = asyncio.get_running_loop().create_future()
            numbered = [{**each, "batch": batch, "row": row} for row, each in enumerate(results)]
            self.tell(numbered, confirm=batch)
        if (keeping := self._keeping.get(batch)) is not None:
            await asyncio.shield(keeping)


def _last_of(session: bytes, entry: bytes | None) -> int:
    """Return the number that the gateway gave to the event of the newest entry; 0 in another session."""
    of, number, _ = (entry or b"- 0 ").split(b" ", 2)
    return int(number) if of == session else 0


def _is_own(writer: asyncio.StreamWriter) -> bool:
    """Return True if the other end belongs to this user."""
    peer = writer.get_extra_info("socket").getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return struct.unpack("3i", peer)[1] == os.getuid()
