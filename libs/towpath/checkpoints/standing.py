"""Where a job stands, by its checkpoint alone: for the engine that ran it and for the agent that asks."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.job import Assignment
from towpath.contracts.migration import Paused
from towpath.engines.spark.layout import committed_serials, newest_commit


def position(checkpoint: Path, assignment: Assignment) -> dict[str, int]:
    """Input → last serial number processed and committed, or where the job begins."""
    names = [entry.name for entry in assignment.inputs]
    begin = {e.name: e.after_serial for e in assignment.inputs if e.after_serial is not None}
    return begin | committed_serials(checkpoint, names)


def standing(checkpoint: Path, assignment: Assignment) -> Paused:
    """Position and newest committed micro-batch of a job that does not run."""
    return Paused(
        serials=position(checkpoint, assignment), batch=newest_commit(checkpoint), last_processed_at=None
    )
