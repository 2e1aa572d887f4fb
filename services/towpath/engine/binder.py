"""The interface between a site and its engine: what another engine would have to do.

An agent reaches its engine by the six commands of `towpath.contracts.engine`, which `engine/app.py` serves
over any `Engine`. `Queries` is the one over Apache Spark, with whatever master: threads of one process, or a
standalone cluster. Another engine is one more class like it.

In the words of SpecK's binders:

=========== =======================================================================================
start       `run`, with no checkpoint in the directory
resume      `run`, with one; also after a failure, which an engine meets by itself
status      `statuses`
stop        `halt`
checkpoint  what `halt` leaves in the directory, and what can be copied from it while the job runs
=========== =======================================================================================

What the migration of a job rests on, whatever the engine:

1. A job reads each input by serial number, without gap, from the assignment's `after_serial` or from where
   its checkpoint stands. Events that are no longer kept are a failure that names them (`EventsLost:`).
2. It publishes through the epoch's subject and with message ids that depend on nothing but the events: a
   repeated computation is then dropped. A refused publish (`Fenced:`) ends the job here for good.
3. A checkpoint is a directory in the layout that `towpath.engines.spark.layout` reads: `offsets/N` before
   micro-batch N runs, `commits/N` after its results are stored, files that never change in place. So it can
   be copied while the job runs, and moved: it must not depend on the path it lies at.
4. While the file `pause` lies beside the checkpoint, nothing new is planned.
5. Nobody writes to the checkpoint once `halt` has returned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from towpath.contracts.job import Assignment, JobStatus
from towpath.contracts.metrics import Sample
from towpath.contracts.migration import Paused
from towpath.contracts.site_commands import Recomputed


class Engine(Protocol):
    """What an agent asks of its site's engine. All may be called at any time, and again."""

    async def run(self, assignment: Assignment, checkpoint: Path) -> None:
        """Keep the job running, from its checkpoint if there is one; a run with another assignment is
        halted first. Returns before the job runs: `statuses` says how it goes."""
        ...

    async def halt(self, name: str, within_s: float) -> Paused:
        """Stop the job after the micro-batch under way, or after `within_s` seconds in the midst of it.
        Says where the checkpoint stands. Raises `TowpathError` (unknown job) if it does not run here."""
        ...

    def statuses(self) -> list[JobStatus]:
        """How all jobs go, those included that have failed for good."""
        ...

    def measures(self, after: int) -> tuple[list[Sample], int]:
        """What was measured of the jobs (`job.…` in the table of metrics): the samples behind number `after`,
        the first of them if they are many, and the number of the last one given. They count from 1."""
        ...

    async def analyse(self, assignment: Assignment, checkpoint: Path) -> None:
        """Check the job without running it. Raises `TowpathError` for what does not fit."""
        ...

    async def recompute(self, assignment: Assignment, after: int, through: int) -> Recomputed:
        """The job's results over `after` < serial number ≤ `through` as one window, published nowhere.
        Raises `TowpathError`."""
        ...

    async def close(self) -> None:
        """Halt everything."""
        ...
