"""Brings fault rules into the processes of a mesh: `towpath.hooks.extension` loads this module.

Every process of a mesh with fault rules imports it when it starts, so it imports little itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from towpath.lab.faults.board import FAULTS, PROCESS, watch

if TYPE_CHECKING:
    from towpath.bus import Bus

__all__ = ["ENVIRONMENT", "SPARK_DAEMON", "at_site", "watch"]

SPARK_DAEMON = "towpath.lab.faults.spark_daemon"
ENVIRONMENT = (FAULTS, PROCESS)


@asynccontextmanager
async def at_site(home: Path, site: str, bus: Bus) -> AsyncIterator[None]:
    """Take the rules of a site from the injector. In the end, end what is held: before engine and broker end,
    which may be paused."""
    from towpath.contracts.fault_commands import SetRules
    from towpath.lab.guard.keeper import Keeper
    from towpath.mesh.home import Home
    from towpath.tasks import end

    keeper = Keeper(Home(home), site, bus.publish)
    watching = asyncio.create_task(keeper.watch())
    try:
        await bus.serve(SetRules, keeper.set_rules, site=site)
        yield
    finally:
        await end([watching])
        await keeper.close()
