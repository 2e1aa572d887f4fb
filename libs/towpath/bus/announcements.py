"""Publish events of a service into the EVENTS stream. If that fails, the log says so."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError
from nats.js.errors import Error as JetStreamError
from opentelemetry import propagate

from towpath.bus.bus import Bus
from towpath.bus.passing import leaving
from towpath.contracts.data_plane import MESSAGE_ID_HEADER
from towpath.contracts.message import Event, new_identifier

log = logging.getLogger(__name__)

ATTEMPT_S = 2.0
WITHIN_S = 9.0
"""Time for one event: an operation waits no longer for its publication. When a server of the hub's cluster
dies, the others take a second to agree on another leader, and some more if no one wins the vote."""

AGAIN_S = 0.3
"""Pause before another attempt: without a leader, the stream refuses at once."""


class Announcements:
    """Publishes events, with the stream's acknowledgement."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def publish(self, event: Event) -> None:
        """Publish; repeat while the stream does not acknowledge. It keeps one copy. Never raises."""
        headers = {MESSAGE_ID_HEADER: new_identifier()}
        propagate.inject(headers)
        clock = asyncio.get_running_loop().time
        end = clock() + WITHIN_S
        while clock() < end:
            try:
                async with asyncio.timeout(ATTEMPT_S + 1):
                    await self._attempt(event, headers)
            except (NatsError, JetStreamError, TimeoutError, OSError) as error:
                log.warning("event %s: %s: %s", event.to_subject(), type(error).__name__, error)
                await asyncio.sleep(AGAIN_S)
            else:
                return
        log.error("event %s was not kept", event.to_subject())

    async def _attempt(self, event: Event, headers: dict[str, str]) -> None:
        subject, jetstream = event.to_subject(), self._bus.connection.jetstream()
        bodies = await leaving(type(event), subject, event.to_bytes())
        for body in bodies:
            await jetstream.publish(subject, body, timeout=ATTEMPT_S, headers=headers)
        if not bodies:
            await asyncio.sleep(ATTEMPT_S)  # A rule lets the event get lost, so no acknowledgement comes.
            raise TimeoutError("a rule let it get lost")
