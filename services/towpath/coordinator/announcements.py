"""Events of the coordinator reach the EVENTS stream, or the log says that they did not."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError
from opentelemetry import propagate

from towpath.bus import Bus
from towpath.contracts.message import Event

log = logging.getLogger(__name__)

ATTEMPT_S = 2.0
ATTEMPTS = 3
"""An operation does not wait longer for its audience."""


class Announcements:
    """Publishes events, with the stream's acknowledgement."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def publish(self, event: Event) -> None:
        """Publish; repeat while the stream does not acknowledge. Never raises."""
        headers: dict[str, str] = {}
        propagate.inject(headers)
        jetstream = self._bus.connection.jetstream()
        for _ in range(ATTEMPTS):
            try:
                async with asyncio.timeout(ATTEMPT_S + 1):
                    await jetstream.publish(
                        event.to_subject(), event.to_bytes(), timeout=ATTEMPT_S, headers=headers or None
                    )
            except (NatsError, JetStreamError, TimeoutError, OSError) as error:
                log.warning("event %s: %s: %s", event.to_subject(), type(error).__name__, error)
            else:
                return
        log.error("event %s was not kept", event.to_subject())
