"""Give results to the store of MQTT sessions that were on their way there when the site's server died.

An output stream republishes each result to that store, inside the server, and waits for nothing. What was on
its way when the server was killed is in the output only, and a subscriber that was away would never get it.
Each result in the store bears the serial number that it has in the output. So the newest one that a session
still waits for tells what is missing, and no session gets a result twice.
"""

from __future__ import annotations

import asyncio
import logging

from nats.js.errors import NotFoundError

from towpath.contracts.data_plane import (
    MESSAGE_ID_HEADER,
    MQTT_DELIVERY,
    MQTT_QOS_HEADER,
    MQTT_STORE,
    MQTT_STREAM,
    REPUBLISHED_FROM,
    REPUBLISHED_SERIAL,
)
from towpath.streams.pages import StoredMessage, pages_after
from towpath.streams.stream_view import StreamView, stream_views
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

IN_FLIGHT = 256


async def redeliver(streams: SiteStreams) -> int:
    """Publish to the store what it lacks. Return how many results those were.

    Outputs for which no session waits are left out. Raises `TimeoutError` when the server does not answer.
    """
    views = await stream_views(streams.connection, streams.site)
    if not any(view.name == MQTT_STREAM for view in views):
        return 0
    given = 0
    for output in views:
        if output.republishes_to.startswith(MQTT_DELIVERY):
            given += await _complete(streams, output)
    if given:
        log.info("%d results were given to sessions once more", given)
    return given


async def _complete(streams: SiteStreams, output: StreamView) -> int:
    last = await _newest_waiting(streams, output)
    given = 0
    if last is None or last >= output.last:
        return 0
    async for page in pages_after(streams.connection, streams.site, output.name, last):
        for begin in range(0, len(page), IN_FLIGHT):
            some = page[begin : begin + IN_FLIGHT]
            given += sum(await asyncio.gather(*(_give(streams, output, message) for message in some)))
    return given


async def _newest_waiting(streams: SiteStreams, output: StreamView) -> int | None:
    """Return the serial number of the newest result that a session waits for; None if none does."""
    subject = MQTT_STORE + output.republishes_to.removeprefix(MQTT_DELIVERY)
    try:
        found = await streams.jetstream.get_last_msg(MQTT_STREAM, subject)
    except NotFoundError:
        return None
    headers = found.headers or {}
    return int(headers[REPUBLISHED_SERIAL]) if headers.get(REPUBLISHED_FROM) == output.name else None


async def _give(streams: SiteStreams, output: StreamView, message: StoredMessage) -> bool:
    """Publish a result as the output does. Return True if the store did not have it."""
    name, value = MQTT_QOS_HEADER
    headers = {
        name: value,
        MESSAGE_ID_HEADER: message.headers.get(MESSAGE_ID_HEADER, ""),
        REPUBLISHED_FROM: output.name,
        REPUBLISHED_SERIAL: str(message.serial),
    }
    answer = await streams.jetstream.publish(output.republishes_to, message.body, headers=headers)
    return not answer.duplicate
