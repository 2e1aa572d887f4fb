"""See to it that subscribers' sessions get what was on its way to them when the site's server died."""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError

from towpath.streams.redelivery import redeliver
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5


async def watch(streams: SiteStreams) -> None:
    """Complete what sessions wait for, at the start and after each reconnection, until cancelled.

    A reconnection need not mean that the server has died. Then there is nothing to complete.
    """
    connection, served = streams.connection, -1
    while True:
        reconnects = connection.stats["reconnects"]
        if reconnects != served and connection.is_connected:
            try:
                await redeliver(streams)
                served = reconnects
            except (NatsError, OSError, TimeoutError) as error:
                log.debug("results cannot be given to sessions yet: %s", error)
        await asyncio.sleep(LOOK_EVERY_S)
