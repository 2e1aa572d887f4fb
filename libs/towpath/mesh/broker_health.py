"""Restart a nats-server, of a site or of the hub, when it cannot store although there is room again.

A stream of nats-server that failed to write once, because the disk was full, refuses all later messages
until the server restarts. It sends no error: devices and engines only see no acknowledgement.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError

from towpath.mesh.names import SERVER_HEALTH

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
ANSWER_S = 2.0

WRITE_ERROR = "write error"
"""The server's name for this state. Others, such as streams being restored, pass by themselves."""

ROOM_BYTES = 1024**2
"""Room that a starting server needs. With less, a restart would not help."""


class BrokerHealth:
    """Checks one server, over a connection to it. In a cluster each server needs a check of its own."""

    def __init__(
        self, connection: Client, directory: Path, *, restart: Callable[[], Awaitable[None]]
    ) -> None:
        self._connection = connection
        self._directory = directory
        self._restart = restart

    async def watch(self) -> None:
        """Check every second, until cancelled."""
        while True:
            trouble = await self._trouble()
            if trouble and await asyncio.to_thread(has_room, self._directory):
                log.error("the server cannot store events and is restarted: %s", trouble)
                await self._restart()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _trouble(self) -> str:
        """Return why the broker cannot store. Empty if it can, or does not answer at all."""
        try:
            answer = await self._connection.request(SERVER_HEALTH, b"", timeout=ANSWER_S)
        except (NatsError, TimeoutError, OSError):
            return ""
        told = json.loads(answer.data)
        error = told.get("data", {}).get("error", "")
        # All servers of a cluster answer, and the first answer may be another's.
        is_own = told["server"]["id"] == self._connection._server_info["server_id"]
        return error if WRITE_ERROR in error and is_own else ""


def has_room(directory: Path) -> bool:
    """True if the file system of the directory has room for a restart."""
    probe = directory / ".room"
    try:
        try:
            probe.write_bytes(b"\0" * ROOM_BYTES)
        finally:
            probe.unlink(missing_ok=True)
    except OSError:
        return False
    return True
