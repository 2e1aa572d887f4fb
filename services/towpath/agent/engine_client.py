"""Send commands from the agent to its engine."""

from __future__ import annotations

from pathlib import Path

from towpath.agent.artefacts import SiteArtefacts
from towpath.bus import Bus
from towpath.contracts.engine import (
    SHARED_ENGINE,
    AnalyseJob,
    HaltQuery,
    ListQueries,
    QueryList,
    RecomputeRange,
    RunQuery,
)
from towpath.contracts.job import Assignment
from towpath.contracts.migration import Paused
from towpath.contracts.site_commands import Recomputed

LIST_S = 3.0
RUN_S = 30.0
ANALYSE_S = 30.0
RECOMPUTE_S = 20.0
HALT_MARGIN_S = 20.0
"""Time beyond that of the micro-batch under way, for stopping the query itself."""


class EngineClient:
    """Commands to one engine of a site. All raise `TowpathError` when it does not answer."""

    def __init__(self, bus: Bus, site: str, artefacts: SiteArtefacts, engine: str = SHARED_ENGINE) -> None:
        self.bus = bus
        self.site = site
        self.engine = engine
        self.artefacts = artefacts
        """User code. It is placed here before the engine is asked to compute with it."""

    async def queries(self) -> QueryList:
        """Return what the engine runs."""
        return await self.bus.request(ListQueries(site=self.site, engine=self.engine), deadline_s=LIST_S)

    async def answers(self) -> bool:
        """True if the engine answers."""
        try:
            await self.bus.request(ListQueries(site=self.site, engine=self.engine), deadline_s=0.5)
        except Exception:
            return False
        return True

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep a job running."""
        placed = await self.artefacts.in_place(assignment)
        command = RunQuery(site=self.site, engine=self.engine, assignment=placed, checkpoint=str(checkpoint))
        await self.bus.request(command, deadline_s=RUN_S)

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Compile a job without starting it."""
        placed = await self.artefacts.in_place(assignment)
        command = AnalyseJob(
            site=self.site, engine=self.engine, assignment=placed, checkpoint=str(checkpoint)
        )
        await self.bus.request(command, deadline_s=ANALYSE_S)

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """Compute a range of events as one window, and publish nothing."""
        placed = await self.artefacts.in_place(assignment)
        command = RecomputeRange(
            site=self.site, engine=self.engine, assignment=placed, after=after, through=through
        )
        return await self.bus.request(command, deadline_s=RECOMPUTE_S)

    async def halt(self, job: str, within_s: float) -> Paused:
        """Stop a job at a micro-batch boundary."""
        command = HaltQuery(site=self.site, engine=self.engine, job=job, within_s=within_s)
        return await self.bus.request(command, deadline_s=within_s + HALT_MARGIN_S)
