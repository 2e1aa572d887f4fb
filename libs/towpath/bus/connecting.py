"""Connect to a NATS server, and never give up."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client

log = logging.getLogger(__name__)

RETRY_PAUSE_S = 0.3
"""Between attempts."""


@dataclass(frozen=True)
class Login:
    """A server, and the user of the connection there."""

    url: str
    user: str
    password: str = field(repr=False)


async def connect_persistently(url: str, **options: Any) -> Client:
    """Connect, and try again also after a refusal, because a server that restarts refuses for a moment."""
    while True:
        try:
            return await nats.connect(
                url,
                connect_timeout=3,
                allow_reconnect=True,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.2,
                pending_size=64 * 1024 * 1024,
                error_cb=_log_connection_error,
                **options,
            )
        except (OSError, nats.errors.Error, TimeoutError):
            await asyncio.sleep(RETRY_PAUSE_S)


async def flushed(connection: Client) -> None:
    """Return when the server has processed everything that was sent before, subscriptions included.

    The client's own `flush` writes its ping at once, ahead of commands that still wait to be written. So its
    answer says nothing about them. But it comes only after they are written, so that a second `flush` waits
    for them.
    """
    await connection.flush()
    await connection.flush()


async def _log_connection_error(error: Exception) -> None:
    log.warning("nats: %s: %s", type(error).__name__, error)
