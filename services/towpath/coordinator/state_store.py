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

    async def _known(self) -> set[str]:
        """Return the operations that may have state on its way, those of standbys included."""
        jobs = await self._registry.jobs()
        standbys = {
            standby_operation(name, entry.epoch) for name, entry in jobs.items() if entry.spec.standby
        }
        return standbys | {*await self._registry.unfinished()}

    async def _left_by_standbys(self, key: str) -> bool:
        """Return true for what a standby got under an earlier epoch of its job: no one else deletes that."""
        names = await self._registry.jobs()
        return operation_of(key).startswith(tuple(standby_operation(name, 0)[:-1] for name in names))

    async def look(self) -> None:
        """Look once."""
        for entry in await self._registry.call("acl_log"):
            if entry["object"] != GREETING:
                kind, who = f"redis {entry['reason']}", entry["username"]
                await self._refusals.tell(kind, entry["object"], who=who, why="no right to it")
        await self._registry.call("acl_log_reset")
        keys = await self._registry.keys(f"{TRANSFERS}*")
        running = await self._known() if keys else set[str]()
        for key in keys:
            if operation_of(key) not in running:
                await self._registry.call("unlink", key)
                if await self._left_by_standbys(key):
                    continue
                why = "it belongs to no operation, and was deleted"
                await self._refusals.tell("redis store", key, why=why)
