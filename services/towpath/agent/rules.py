"""The fault rules of a site: what the injector says shall hold here is written down and carried out."""

from __future__ import annotations

import asyncio

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import RulesSet, SetRules
from towpath.lab.guard.keeper import Keeper
from towpath.mesh.home import Home


class Rules:
    """Answers the injector. Rules end with their lease whatever happens to this process."""

    def __init__(self, home: Home, site: str, bus: Bus) -> None:
        self._site = site
        self._keeper = Keeper(home, site, bus.publish)
        self._revision = -1
        self._setting = asyncio.Lock()

    async def set_rules(self, command: SetRules) -> RulesSet:
        """See `SetRules`. Raises `TowpathError` (fenced) when newer rules hold already: it comes late."""
        async with self._setting:
            if command.revision < self._revision:
                raise TowpathError(
                    ErrorCode.FENCED,
                    "newer rules hold already",
                    field="revision",
                    value=command.revision,
                    allowed=f"{self._revision} or more",
                )
            self._revision = command.revision
            return await self._keeper.set(command.revision, command.lease_s, command.rules, command.shared)

    async def watch(self) -> None:
        """Report what came of rules, for ever."""
        await self._keeper.watch()

    async def close(self) -> None:
        """End what is held: before engine and broker end, which may be paused."""
        await self._keeper.close()
