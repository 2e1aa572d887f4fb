"""The agent's own figures of its jobs, besides those that their engine measures."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from time import monotonic

from towpath.agent.jobs import Jobs
from towpath.contracts.job import Assignment, DesiredState
from towpath.streams.retention import margins
from towpath.streams.stream_view import StreamView
from towpath.telemetry.intervals import CHECKPOINT_INTERVAL_S


class JobFigures:
    """Values of the jobs that run at a site."""

    def __init__(self, site: str, jobs: Jobs) -> None:
        self._site = site
        self._jobs = jobs
        self._measured_at: float | None = None

    async def values(self, streams: dict[str, StreamView]) -> dict[str, dict[str, float]]:
        """Return job → values by metric. The size of checkpoints is not in every result."""
        running = [a for a in self._jobs.assignments.values() if a.desired is DesiredState.RUNNING]
        sizes = await self._sizes(running)
        values: dict[str, dict[str, float]] = {}
        for assignment in running:
            job = assignment.spec.name
            found = {"job.restarts": float(self._jobs.status(assignment).restarts)}
            serials = await self._serials(assignment)
            backlog = unprocessed(self._site, assignment, serials, streams)
            if backlog is not None:
                found["job.backlog"] = float(backlog)
            if known := margins(self._site, assignment, serials, streams):
                found["job.retention_left"] = min(each.left_s for each in known.values())
            if job in sizes:
                found["job.checkpoint.size"] = float(sizes[job])
            values[job] = found
        return values

    async def _serials(self, assignment: Assignment) -> dict[str, int]:
        """Return input → last serial number processed, from the engine or else from the checkpoint."""
        serials = self._jobs.status(assignment).serials
        if all(entry.name in serials for entry in assignment.inputs):
            return serials
        try:
            return await asyncio.to_thread(self._jobs.position, assignment) | serials
        except (OSError, ValueError):
            return serials  # The checkpoint is just changing, or is not complete yet.

    async def _sizes(self, assignments: list[Assignment]) -> dict[str, int]:
        """Return job → bytes of its checkpoint. Empty if that was measured a moment ago."""
        now = monotonic()
        if self._measured_at is not None and now - self._measured_at < CHECKPOINT_INTERVAL_S:
            return {}
        self._measured_at = now
        paths = {a.spec.name: self._jobs.store.checkpoint(a) for a in assignments}
        return await asyncio.to_thread(lambda: {job: size_of(path) for job, path in paths.items()})


def unprocessed(
    site: str, assignment: Assignment, serials: dict[str, int], streams: dict[str, StreamView]
) -> int | None:
    """Return the number of serials that a job at `site` has not processed, over all its inputs.

    None if a stream is missing. A job that wants one topic of a stream counts the events of other topics,
    too, because it must skip them.
    """
    backlog = 0
    for entry in assignment.inputs:
        state = streams.get(entry.local_stream(site))
        if state is None:
            return None
        backlog += max(0, state.newest - serials.get(entry.name, entry.after_serial or 0))
    return backlog


def size_of(directory: Path) -> int:
    """Return bytes of all files below a directory. Files that disappear meanwhile do not count. Blocks."""
    size = 0
    for parent, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                size += Path(parent, name).stat().st_size
    return size
