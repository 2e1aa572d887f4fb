"""See to it that subscribers' sessions get what was on its way to them when the site's server died."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import datetime, timedelta
from pathlib import Path

from nats.errors import Error as NatsError

from towpath.atomic_write import write_atomically
from towpath.contracts.data_plane import DUPLICATE_WINDOW_S
from towpath.contracts.message import now
from towpath.mesh.names import SERVER_HEALTH
from towpath.streams.redelivery import redeliver
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
NOTE_EVERY_S = 10.0
ANSWER_S = 2.0

ON_ITS_WAY_S = DUPLICATE_WINDOW_S / 2
"""Older results have reached the sessions' store: their way takes milliseconds, and seconds where the disk is
slow. The store must still know the ids of all that are younger."""


class Sessions:
    """Remembers, on disk, which server was there last, and when."""

    def __init__(self, streams: SiteStreams, note: Path) -> None:
        self._streams = streams
        self._note = note
        self._noted_at: datetime | None = None
        self._reconnects = -1

    async def watch(self) -> None:
        """Give results to the sessions of each server that has started since, until cancelled."""
        while True:
            try:
                await self.look()
            except (NatsError, OSError, TimeoutError, ValueError) as error:
                log.debug("results cannot be given to sessions yet: %s", error)
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once, after a reconnection or after some time."""
        connection = self._streams.connection
        reconnects = connection.stats["reconnects"]
        is_due = self._noted_at is None or (now() - self._noted_at).total_seconds() >= NOTE_EVERY_S
        if not connection.is_connected or (reconnects == self._reconnects and not is_due):
            return
        answer = await connection.request(SERVER_HEALTH, b"", timeout=ANSWER_S)
        server = json.loads(answer.data)["server"]["id"]
        before = await asyncio.to_thread(self._noted)
        if before is not None and before[0] != server:
            await redeliver(self._streams, before[1] - timedelta(seconds=ON_ITS_WAY_S))
        self._noted_at = now()
        content = json.dumps({"server": server, "seen_at": self._noted_at.isoformat()})
        await asyncio.to_thread(write_atomically, self._note, content, durable=False)
        self._reconnects = reconnects

    def _noted(self) -> tuple[str, datetime] | None:
        """Return the server that was there last, and when; None at the first start."""
        try:
            content = json.loads(self._note.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return content["server"], datetime.fromisoformat(content["seen_at"])
