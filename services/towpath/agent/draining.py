"""Lets a job finish what its inputs hold before it is stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection

from nats.errors import Error as NatsError

from towpath.agent.jobs import Jobs
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, JobState
from towpath.contracts.operators import ProcessingWindow

POLL_S = 0.1


async def drain(jobs: Jobs, assignment: Assignment, inputs: Collection[str], within_s: float) -> None:
    """Wait until the running job has processed everything that these of its inputs hold now.

    Raises `TowpathError`: `deadline` when that takes longer, `failed` when the job does not run.
    """
    ends = {
        entry.name: (await jobs.streams.bounds(entry.site, entry.stream)).last
        for entry in assignment.inputs
        if entry.name in inputs
    }
    loop = asyncio.get_running_loop()
    end = loop.time() + within_s
    while True:
        status = jobs.status(assignment)
        known = await asyncio.to_thread(jobs.position, assignment)
        left = {name: last - known.get(name, 0) for name, last in ends.items()}
        if all(events <= _never_taken(assignment) for events in left.values()):
            return
        if status.state in (JobState.FAILED, JobState.FENCED):
            raise TowpathError(ErrorCode.FAILED, f"{status.job} does not run: {status.error}", field="drain")
        if status.state is JobState.STARTING:
            # The engine was started anew. Whoever brings jobs back leaves one that a command is about.
            with contextlib.suppress(TowpathError, NatsError):
                await jobs.run(assignment)
        if loop.time() > end:
            raise TowpathError(
                ErrorCode.DEADLINE,
                f"{status.job} has {sum(left.values())} events to process after {within_s:g} s",
                field="drain",
                value=True,
                allowed="false, or later",
            )
        await asyncio.sleep(POLL_S)


def _never_taken(assignment: Assignment) -> int:
    """Events that may wait for ever: a window by number of events is whole, or does not run."""
    operator = assignment.spec.operator
    if isinstance(operator, ProcessingWindow) and operator.size_events is not None:
        return operator.size_events - 1
    return 0
