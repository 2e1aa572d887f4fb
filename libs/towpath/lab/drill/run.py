"""Plays cells one after another on one mesh, and takes a new one when a cell has left it broken."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.lab.drill.cell_run import CellRun
from towpath.lab.drill.matrix import RECOVERED_WITHIN_S, SITES, WORKLOADS, Cell, output_site_of, workload_of
from towpath.lab.drill.moving_job import MovingJob, moving_job
from towpath.lab.drill.report import CellReport
from towpath.lab.harness.events import EventClock
from towpath.lab.harness.stage import Series, Stage, Stages, small_mesh
from towpath.lab.harness.workload import OPERATORS
from towpath.mesh.home import Home

log = logging.getLogger(__name__)

CELLS_OF_A_JOB = 8
"""Cells that move one job before another is deployed, because each verdict looks at all its results."""


@dataclass
class Drill(Series):
    """Cells that are played one after another."""

    home: Home
    cells: Sequence[Cell]
    recovered_within_s: float = RECOVERED_WITHIN_S
    """Results must flow again within this time after a fault's end."""
    _jobs: int = 0

    async def run(self) -> AsyncGenerator[CellReport, None]:
        """Yield the report of each cell: see `Series`."""
        left = in_order(self.cells)
        self.stages = Stages(self.home, small_mesh(SITES), self.say)
        async with aclosing(self.stages.until_empty(left)) as stages:
            async for up in stages:
                async for report in self._on(up, left):
                    yield report

    async def _on(self, up: Stage, left: list[Cell]) -> AsyncGenerator[CellReport, None]:
        """Play cells off the list until none is left, or the mesh is broken."""
        clock = EventClock()
        while left:
            async with AsyncExitStack() as exits:
                try:
                    self._jobs += 1
                    job = await exits.enter_async_context(moving_job(up, left[0], self._jobs, clock))
                except (TowpathError, TimeoutError, NatsError) as error:
                    yield _undeployed(left.pop(0), error)
                    return
                async for report, broken in self._with(job, left):
                    yield report
                    if broken:
                        return
                if not await _removed(job):
                    return

    async def _with(self, job: MovingJob, left: list[Cell]) -> AsyncGenerator[tuple[CellReport, bool], None]:
        """Play cells that move this job, until one is not clean."""
        for _ in range(CELLS_OF_A_JOB):
            if not left or not _moves(left[0], job):
                return
            cell = left.pop(0)
            self.say(f"{cell.name}: {job.name} from {job.site} to {job.elsewhere}")
            run = CellRun(cell, job, self.recovered_within_s)
            report = await run.run()
            yield report, run.broken
            if not report.clean:
                return


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """Return the cells ordered by the kind of job that they move, and the site of its results."""
    return sorted(cells, key=lambda cell: (WORKLOADS.index(workload_of(cell)), output_site_of(cell)))


def _moves(cell: Cell, job: MovingJob) -> bool:
    """True if the cell can be played with this job."""
    view = job.observed.view
    kept_there = output_site_of(cell) == view.output.site
    return kept_there and OPERATORS[workload_of(cell)] == view.spec.operator


def _undeployed(cell: Cell, error: Exception) -> CellReport:
    return CellReport(
        strategy=cell.strategy,
        step=cell.step,
        fault=cell.fault,
        actor=cell.actor,
        reasons=[f"before the cell: the job could not be deployed: {error}"],
    )


async def _removed(job: MovingJob) -> bool:
    """Remove the job. Return false if that fails: the mesh is broken then."""
    try:
        await job.remove()
    except TowpathError as error:
        log.warning("%s cannot be removed: %s", job.name, error)
        return False
    return True
