"""See to it that subscribers' sessions get what was on its way to them when the site's server died."""

from __future__ import annotations

import asyncio
import logging
import time

from nats.errors import Error as NatsError

from towpath.streams.redelivery import Redelivery
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
RENEW_EVERY_S = 5.0
TELL_AFTER = 20
"""Failures in a row that are no restart of the server any more: those of ten seconds."""


async def watch(streams: SiteStreams) -> None:
    """Complete what sessions get, at the start and after each reconnection, until cancelled."""
    connection, served, renewed_at = streams.connection, -1, 0.0
    redelivery, failures = Redelivery(streams), 0
    while True:
        reconnects = connection.stats["reconnects"]
        try:
            if reconnects != served and connection.is_connected:
                await redelivery.complete()
                served, renewed_at = reconnects, time.monotonic()
            elif time.monotonic() > renewed_at + RENEW_EVERY_S and connection.is_connected:
                await redelivery.renew()
                renewed_at = time.monotonic()
            failures = 0
        except (NatsError, OSError, TimeoutError) as error:
            # Nothing is known any more of what was under way.
            served, failures = -1, failures + 1
            level = logging.WARNING if failures == TELL_AFTER else logging.DEBUG
            log.log(level, "results cannot be given to sessions: %s", error)
        await asyncio.sleep(LOOK_EVERY_S)
