"""Have a site's broker read its configuration again while it runs: it has new users, or new keys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from nats.aio.client import Client
from nats.errors import Error as NatsError

from towpath.mesh.names import SERVER_TOTALS
from towpath.tasks import until

ANSWER_S = 2.0

READ_S = 60.0
"""Time for the server to read its configuration. It takes 1.4 ms for each device that is connected."""


class BrokerConfiguration:
    """The configuration of a broker that runs."""

    def __init__(
        self,
        write: Callable[[], object],
        reload: Callable[[], Awaitable[bool]],
        loaded_at: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """`write` writes it, and `reload` has the broker read it, if it is ready.

        `loaded_at` tells when the broker has read it last. None: the broker does not tell.
        """
        self._write = write
        self._reload = reload
        self._loaded_at = loaded_at
        self._taking = asyncio.Lock()
        """New keys and new devices may come at once. What is written last must have both."""

    async def loaded_at(self) -> str | None:
        """Return when the broker has read it last. Raises `nats.errors.Error`, `TimeoutError`."""
        return await self._loaded_at() if self._loaded_at is not None else None

    async def take_in(self) -> bool:
        """Write the configuration, and return when the broker has read it. False: the broker is not ready.

        Raises `nats.errors.Error` or `TimeoutError` when the broker has not read it.
        """
        async with self._taking:
            await asyncio.to_thread(self._write)
            before = await self.loaded_at()
            if not await self._reload():
                return False

            async def is_read() -> bool:
                try:
                    return await self.loaded_at() != before
                except (NatsError, TimeoutError):
                    return False  # It may answer late, or not at all, while it reads.

            if self._loaded_at is not None:
                await until(is_read, READ_S, 0.02)
            return True


async def config_loaded_at(connection: Client) -> str:
    """Return when a nats-server has read its configuration. Raises `nats.errors.Error`, `TimeoutError`."""
    answer = await connection.request(SERVER_TOTALS, b"{}", timeout=ANSWER_S)
    return json.loads(answer.data)["data"]["config_load_time"]
