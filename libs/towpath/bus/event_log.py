"""The hub's EVENTS stream: all events of the mesh, kept for late subscribers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import nats.js.errors
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import ConsumerConfig, DeliverPolicy, StorageType, StreamConfig

from towpath.bus.bus import Bus
from towpath.bus.connecting import replicas_at
from towpath.contracts.events import EVENTS_STREAM, EVENTS_WILDCARD

KEEP_BYTES = 256 * 1024**2
"""Some hundred thousand events: weeks of an ordinary mesh."""


async def ensure_events_stream(bus: Bus) -> None:
    """Create the EVENTS stream, or bring it up to date. The bus must be connected to the hub."""
    config = StreamConfig(
        name=EVENTS_STREAM,
        subjects=[EVENTS_WILDCARD],
        storage=StorageType.FILE,
        max_bytes=KEEP_BYTES,
        allow_direct=True,
        num_replicas=replicas_at(bus.connection),
    )
    jetstream = bus.connection.jetstream()
    try:
        await jetstream.add_stream(config)
    except nats.js.errors.BadRequestError:
        await jetstream.update_stream(config)


def event_body(payload: bytes) -> dict[str, Any] | None:
    """Return the body of a stored event; None if it is no event. Sites store what they like."""
    try:
        body = json.loads(payload, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _refused(constant: str) -> None:
    """Refuse `NaN` and the like, which are not JSON and would make none."""
    raise ValueError(constant)


async def follow_events(
    bus: Bus, *, from_start: bool = False, subject: str = EVENTS_WILDCARD, follow: bool = True
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """Yield subject and body of events in order, each once. With `from_start`, past events come first.

    What is stored there and is no event is left out. Without `follow`, end when no more is stored.
    """
    policy = DeliverPolicy.ALL if from_start else DeliverPolicy.NEW
    subscription = await bus.connection.jetstream().subscribe(
        subject,
        stream=EVENTS_STREAM,
        ordered_consumer=True,
        config=ConsumerConfig(deliver_policy=policy),
    )
    try:
        while True:
            try:
                message = await subscription.next_msg(timeout=1.0)
            except (TimeoutError, NatsTimeoutError):
                # A hub that is busy is silent, too: it alone knows if there is more.
                if follow or (await subscription.consumer_info()).num_pending:
                    continue
                return
            if (body := event_body(message.data)) is not None:
                yield message.subject, body
            if not follow and message.metadata.num_pending == 0:
                return
    finally:
        await subscription.unsubscribe()
