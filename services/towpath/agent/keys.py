"""Take over the site's new keys while its jobs go on.

A command that replaces keys only saves them in the mesh's file. The agent finds them there, however often it,
or the command, was killed. Nothing is restarted: the site's server reads its configuration again, and ends
the connections of those who logged in with a former key. Each of them reads its password when it logs in
again, see `towpath.mesh.current_keys`. Devices stay connected as long as their own keys stay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from nats.errors import Error as NatsError
from redis.asyncio import ConnectionPool, Redis

from towpath.agent.broker_configuration import BrokerConfiguration
from towpath.agent.settings import AgentSettings
from towpath.atomic_write import content_state
from towpath.contracts.errors import TowpathError
from towpath.mesh.current_keys import keys_of
from towpath.mesh.state import SiteAccess

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0


class Keys:
    """Watches the keys of a site."""

    def __init__(
        self,
        settings: AgentSettings,
        redis: Redis,
        users: Sequence[Callable[[SiteAccess], None]],
        configuration: BrokerConfiguration,
        restart: Callable[[], Awaitable[None]],
    ) -> None:
        """`users` hold a key in memory, and are given new ones.

        `configuration` is that of the site's server, and `restart` restarts it.
        """
        self._settings = settings
        self._redis = redis
        self._users = users
        self._configuration = configuration
        self._restart = restart
        self._seen: tuple[int, ...] | None = None

    async def watch(self) -> None:
        """Look for new keys until cancelled."""
        while True:
            try:
                await self._look()
            except (TowpathError, OSError) as error:
                log.warning("the site's keys cannot be read: %s", error)
            except Exception:  # Else former keys would stay valid.
                log.exception("the site's new keys are not taken over")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _look(self) -> None:
        seen = content_state(self._settings.home.state)
        if seen == self._seen:
            return
        found = await asyncio.to_thread(AgentSettings.of, self._settings.home.root, self._settings.site)
        if keys_of(found.access) != keys_of(self._settings.access):
            await self._take(found.access)
            self._settings = found
            log.info("the site has new keys")
        self._seen = seen

    async def _take(self, access: SiteAccess) -> None:
        await renew_pool(self._redis, access)
        for take in self._users:
            take(access)
        if not await self._is_taken_in():
            log.warning("the site's server did not take its new keys, and is restarted")
            await self._restart()

    async def _is_taken_in(self) -> bool:
        """Have the server read its new keys. It then refuses the former ones, also of this agent."""
        try:
            return await self._configuration.take_in()
        except (NatsError, TimeoutError):
            return False


async def renew_pool(client: Redis, access: SiteAccess) -> None:
    """Let a client of Redis make new connections, with these keys: those that it has never take others."""
    former = client.connection_pool
    own = access.tls.redis_options() if access.tls else {}
    keys = {"username": access.redis.user, "password": access.redis.password, **own}
    keys.pop("ssl", None)  # The class of its connections says so.
    client.connection_pool = ConnectionPool(
        connection_class=former.connection_class, **{**former.connection_kwargs, **keys}
    )
    await former.disconnect(inuse_connections=False)
