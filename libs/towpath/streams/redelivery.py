"""Give results once more to the store of MQTT sessions, after the site's server has died.

An output stream republishes each result to that store, inside the server, and waits for nothing. What was on
its way when the server was killed is in the output only, and a subscriber that was away would never get it.
The store drops a result that it still holds by its message id. A result that its subscribers had got just
before may come twice, as MQTT's QoS 1 allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import datetime

from towpath.contracts.data_plane import (
    MESSAGE_ID_HEADER,
    MQTT_DELIVERY,
    MQTT_QOS_HEADER,
    MQTT_STREAM,
    STORED_AT_HEADER,
)
from towpath.streams.pages import StoredMessage, pages_before
from towpath.streams.stream_view import StreamView, stream_views
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

MOST = 20_000
"""No more results of an output are given again."""

IN_FLIGHT = 256


async def redeliver(streams: SiteStreams, since: datetime) -> int:
    """Offer the results that were stored since a time. Return how many the store did not have.

    Raises `TimeoutError` when the server does not answer.
    """
    views = await stream_views(streams.connection, streams.site)
    has_sessions = any(view.name == MQTT_STREAM for view in views)
    outputs = [view for view in views if has_sessions and view.republishes_to.startswith(MQTT_DELIVERY)]
    given = 0
    for output in outputs:
        pages = [page async for page in _tail(streams, output, since)]
        messages = [message for page in reversed(pages) for message in page]
        for begin in range(0, len(messages), IN_FLIGHT):
            some = messages[begin : begin + IN_FLIGHT]
            given += sum(await asyncio.gather(*(_give(streams, output, message) for message in some)))
    if given:
        log.info("%d results were given to sessions once more", given)
    return given


async def _tail(
    streams: SiteStreams, output: StreamView, since: datetime
) -> AsyncIterator[list[StoredMessage]]:
    """Yield the results stored since a time, page by page, the newest page first."""
    if not output.last or datetime.fromisoformat(output.last_stored_at) < since:
        return
    taken = 0
    async for page in pages_before(streams.connection, streams.site, output.name, output.last):
        recent = [m for m in page if datetime.fromisoformat(m.headers[STORED_AT_HEADER]) >= since]
        yield recent
        taken += len(recent)
        if len(recent) < len(page) or taken >= MOST:
            return


async def _give(streams: SiteStreams, output: StreamView, message: StoredMessage) -> bool:
    """Publish a result to the store. Return True if that did not have it."""
    name, value = MQTT_QOS_HEADER
    headers = {name: value, MESSAGE_ID_HEADER: message.headers.get(MESSAGE_ID_HEADER, "")}
    answer = await streams.jetstream.publish(output.republishes_to, message.body, headers=headers)
    return not answer.duplicate
