"""Watch over the state store, the Redis that sites share: it is for state on its way, and nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from redis.exceptions import RedisError

from towpath.bus.authenticity import Refusals
from towpath.checkpoints.transfer_keys import TRANSFERS, operation_of
from towpath.contracts.message import Event
from towpath.contracts.standby import standby_operation
from towpath.coordinator.registry.jobs import Registry

log = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
"""For so long a site can keep others from storing: `towpath.mesh.redis_config` bounds how much fits in."""

GREETING = "client"
"""Command with which libraries introduce themselves when they connect, welcome or not."""


class StateStore:
    """Tells of what Redis refused to sites, and deletes what belongs to no operation."""

    def __init__(self, registry: Registry, publish: Callable[[Event], Awaitable[None]]) -> None:
        self._registry = registry
        self._refusals = Refusals("redis", publish)

    async def watch(self) -> None:
        """Look until cancelled. Failures do not end it."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except RedisError as error:
                log.warning("the state store was not looked at: %s", error)

    async def look(self) -> None:
        """Look once."""
        refused, _ = await self._registry.call_together("acl_log", "acl_log_reset")
        for entry in refused:
            if entry["object"] != GREETING:
                kind, who = f"redis {entry['reason']}", entry["username"]
                await self._refusals.tell(kind, entry["object"], who=who, why="no right to it")
        made_room = self._registry.made_room
        while made_room:
            why = "the store was full, and state on its way was deleted"
            await self._refusals.tell("redis store", made_room.popleft(), why=why)
        if keys := await self._registry.keys(f"{TRANSFERS}*"):
            await self._clean(keys)

    async def _clean(self, keys: list[str]) -> None:
        """Delete what belongs to no operation and no standby."""
        jobs, running = await self._registry.jobs(), await self._registry.unfinished()
        standbys = [standby_operation(name, job.epoch) for name, job in jobs.items() if job.spec.standby]
        known = {*running, *standbys}
        for key in keys:
            if (operation := operation_of(key)) in known:
                continue
            await self._registry.call("unlink", key)
            # What a standby got under an earlier epoch of its job is no one else's to delete.
            if not operation.startswith(tuple(standby_operation(name, 0)[:-1] for name in jobs)):
                why = "it belongs to no operation, and was deleted"
                await self._refusals.tell("redis store", key, why=why)
