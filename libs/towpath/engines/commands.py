"""The commands of `towpath.contracts.engine`, which an engine's process answers.

In the words of SpecK's binders:

=========== =======================================================================================
start       `run`, with no checkpoint in the directory
resume      `run`, with one; also after a failure, from which an engine recovers by itself
status      `statuses`
stop        `halt`
checkpoint  what `halt` leaves in the directory, and what can be copied from it while the job runs
=========== =======================================================================================

The migration of a job relies on the following, whatever the engine:

1. A job reads each input by serial number, without gap, from the assignment's `after_serial` or from where
   its checkpoint stands. Events that are no longer kept are a failure that names them (`EventsLost:`). An
   event that repeats an earlier one, by the `identity` of its input, makes no results.
2. It publishes through the epoch's subject and with message ids that depend on nothing but the events: a
   repeated computation is then dropped. A refused publish (`Fenced:`) ends the job here for good.
3. Its checkpoint is as `towpath.engines.checkpoint_format` demands.
4. While the file `pause` lies beside the checkpoint, nothing new is planned.
5. No one writes to the checkpoint once `halt` has returned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from towpath.bus import Bus
from towpath.contracts.engine import (
    SHARED_ENGINE,
    AnalyseJob,
    HaltQuery,
    ListQueries,
    Measures,
    QueryList,
    ReadMeasures,
    RecomputeRange,
    RunQuery,
)
from towpath.contracts.job import Assignment, JobStatus
from towpath.contracts.message import new_identifier
from towpath.contracts.metrics import Sample
from towpath.contracts.migration import Paused
from towpath.contracts.reply import Done
from towpath.contracts.site_commands import Recomputed


class Engine(Protocol):
    """The jobs of an engine. All methods may be called at any time, and repeated."""

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep the job running, from its checkpoint if there is one.

        A run with another assignment is halted first. Returns before the job runs: `statuses` has its state.
        """
        ...

    async def halt(self, name: str, within_s: float) -> Paused:
        """Stop the job after the micro-batch under way, or interrupt that after `within_s` seconds.

        Returns where the checkpoint stands. Raises `TowpathError` (unknown job) if the job does not run here.
        """
        ...

    def statuses(self) -> list[JobStatus]:
        """Return the status of all jobs, also of those that have failed for good."""
        ...

    def measures(self, after: int) -> tuple[list[Sample], int]:
        """Return measurements of the jobs (`job.…` in the table of metrics) behind number `after`.

        The samples count from 1. If there are many, these are the first of them. The second value is the
        number of the last one returned.
        """
        ...

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Check the job without running it. Raises `TowpathError` for what does not fit."""
        ...

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """Return the job's results over `after` < serial number ≤ `through` as one window. Publish nothing.

        Raises `TowpathError`.
        """
        ...

    async def close(self) -> None:
        """Halt everything."""
        ...


async def serve(bus: Bus, site: str, jobs: Engine, name: str = SHARED_ENGINE) -> None:
    """Answer the agent's commands to the engine of this name."""
    incarnation = new_identifier()

    async def run_query(command: RunQuery) -> Done:
        await jobs.run(command.assignment, Path(command.checkpoint))
        return Done()

    async def analyse(command: AnalyseJob) -> Done:
        await jobs.analyse(command.assignment, Path(command.checkpoint))
        return Done()

    async def halt(command: HaltQuery) -> Paused:
        return await jobs.halt(command.job, command.within_s)

    async def recompute(command: RecomputeRange) -> Recomputed:
        return await jobs.recompute(command.assignment, command.after, command.through)

    async def list_queries(_: ListQueries) -> QueryList:
        return QueryList(incarnation=incarnation, queries=jobs.statuses())

    async def read_measures(command: ReadMeasures) -> Measures:
        samples, last = jobs.measures(command.after)
        return Measures(incarnation=incarnation, samples=samples, last=last)

    await bus.serve(RunQuery, run_query, site=site, engine=name)
    await bus.serve(AnalyseJob, analyse, site=site, engine=name)
    await bus.serve(HaltQuery, halt, site=site, engine=name)
    await bus.serve(ListQueries, list_queries, site=site, engine=name)
    await bus.serve(RecomputeRange, recompute, site=site, engine=name)
    await bus.serve(ReadMeasures, read_measures, site=site, engine=name)
