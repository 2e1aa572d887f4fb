"""Keep a connection to a broker, as long as a gateway runs."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from towpath.mqtt.connection import MqttConnection, is_refusal

log = logging.getLogger(__name__)

RETRY_FIRST_S, RETRY_MOST_S = 0.5, 30.0


async def keep_connected(
    connect: Callable[[], MqttConnection], serve: Callable[[MqttConnection], Awaitable[None]]
) -> None:
    """Connect and serve again and again until cancelled. The first attempts may fail, too."""
    delay = RETRY_FIRST_S
    while True:
        try:
            async with connect() as connection:
                delay = RETRY_FIRST_S
                await serve(connection)
        except OSError as error:
            log.warning("no connection to the site: %s", error)
        except Exception as error:
            if not is_refusal(error):
                raise
            log.error("the site refuses this gateway: %s", error)
        await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # Many gateways come back at once.
        delay = min(2 * delay, RETRY_MOST_S)
