"""How fault rules come into the processes of a mesh: see `towpath.hooks.extension`, which loads this module.

Every process of a mesh with fault rules imports it when it starts, so it imports little itself.
"""

from __future__ import annotations

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
    from towpath.contracts.faults import SetRules
    from towpath.lab.guard.site_rules import SiteRules
    from towpath.mesh.home import Home

    async with SiteRules(Home(home), site, bus) as rules:
        await bus.serve(SetRules, rules.set_rules, site=site)
        yield
