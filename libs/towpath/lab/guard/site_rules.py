"""The fault rules of a site: record and apply the rules that the injector sets."""

from __future__ import annotations

import asyncio
from typing import Self

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import RulesSet, SetRules
from towpath.lab.guard.keeper import Keeper
from towpath.mesh.home import Home
from towpath.tasks import end


class SiteRules:
    """Answers the injector. Rules end with their lease, also if this process dies."""

    def __init__(self, home: Home, site: str, bus: Bus) -> None:
        self._keeper = Keeper(home, site, bus.publish)
        self._revision = -1
        self._setting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._keeper.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        await end([self._watching])
        await self._keeper.close()

    async def set_rules(self, command: SetRules) -> RulesSet:
        """Replace the site's rules. Raises `TowpathError` (fenced) if it already has newer ones."""
        async with self._setting:
            if command.revision < self._revision:
                raise TowpathError(
                    ErrorCode.FENCED,
                    "the site already has newer rules",
                    field="revision",
                    value=command.revision,
                    allowed=f"{self._revision} or more",
                )
            self._revision = command.revision
            return await self._keeper.set(command.revision, command.lease_s, command.rules, command.shared)
