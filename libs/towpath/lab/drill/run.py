"""Runs cells one after another on one mesh, and starts it anew when a cell has left it broken."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field

from nats.errors import Error as NatsError

from towpath.contracts.errors import TowpathError
from towpath.lab.drill.matrix import Cell, output_site_of, workload_of
from towpath.lab.drill.moving_job import MovingJob, moving_job
from towpath.lab.drill.performance import Performance
from towpath.lab.drill.report import RECOVERED_WITHIN_S, CellReport
from towpath.lab.harness.events import EventClock
from towpath.lab.harness.stage import Stage, stage
from towpath.lab.harness.workload import WORKLOADS
from towpath.mesh.home import Home

log = logging.getLogger(__name__)

CELLS_OF_A_JOB = 8
"""So many cells move one job before it is deployed anew: the verdict looks at all its results again."""


@dataclass
class Drill:
    """One run of some cells. `say` is told in a few words what is under way."""

    home: Home
    cells: Sequence[Cell]
    say: Callable[[str], None] = field(default=lambda text: None)
    recovered_within_s: float = RECOVERED_WITHIN_S
    """Results must flow again so soon after a fault's end."""
    restarts: int = 0
    """How often the mesh had to be started anew."""
    _jobs: int = 0

    async def run(self) -> AsyncGenerator[CellReport, None]:
        """Yield each cell's report when it is over. Close the iterator to end early.

        Raises `TowpathError` when the mesh cannot be brought up.
        """
        left = in_order(self.cells)
        while left:
            begun = time.monotonic()
            self.say("starting three sites")
            async with stage(self.home) as up:
                self.say(f"three sites are up after {time.monotonic() - begun:.0f} s")
                async for report in self._on(up, left):
                    yield report
            if left:
                self.restarts += 1
                await asyncio.to_thread(self._keep_logs)

    async def _on(self, up: Stage, left: list[Cell]) -> AsyncGenerator[CellReport, None]:
        """Play cells off the list until none is left, or the mesh is broken."""
        clock = EventClock()
        while left:
            async with AsyncExitStack() as exits:
                try:
                    job = await exits.enter_async_context(self._deployed(up, left[0], clock))
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
            performance = Performance(cell, job, self.recovered_within_s)
            report = await performance.run()
            yield report, performance.broken
            if not report.clean:
                return

    def _keep_logs(self) -> None:
        """What the broken mesh said, before the next one takes its place."""
        kept = self.home.root.parent / f"logs-of-broken-mesh-{self.restarts}"
        shutil.rmtree(kept, ignore_errors=True)
        self.home.logs.rename(kept)

    def _deployed(self, up: Stage, cell: Cell, clock: EventClock) -> AbstractAsyncContextManager[MovingJob]:
        self._jobs += 1
        workload = workload_of(cell)
        return moving_job(up, workload, f"{workload.name}-{self._jobs}", clock, output_site_of(cell))


def in_order(cells: Sequence[Cell]) -> list[Cell]:
    """The same cells, those together that move the same kind of job, with its results at the same site."""
    return sorted(cells, key=lambda cell: (WORKLOADS.index(workload_of(cell)), output_site_of(cell)))


def _moves(cell: Cell, job: MovingJob) -> bool:
    """Whether the cell can be played with this job."""
    return workload_of(cell) is job.workload and output_site_of(cell) == job.output_site


def _undeployed(cell: Cell, error: Exception) -> CellReport:
    return CellReport(
        strategy=cell.strategy,
        step=cell.step,
        fault=cell.fault,
        actor=cell.actor,
        reasons=[f"before the cell: the job could not be deployed: {error}"],
    )


async def _removed(job: MovingJob) -> bool:
    """Whether the job could be removed: else the mesh is not what it should be."""
    try:
        await job.remove()
    except TowpathError as error:
        log.warning("%s cannot be removed: %s", job.name, error)
        return False
    return True
