"""Adjust a job for people at the site, also while the hub is out of reach.

The job keeps its epoch, its state and its place in each input. Its `adjustments` grow by one, and each
heartbeat has their number. The registry adopts them (`towpath.coordinator.jobs.adoption`). Until then the hub
cannot bring the older description back: `StartJob` with a lower version changes nothing.

What happens when

- the command or its answer is lost: its sender repeats it under its id.
- it is repeated: the ids are on disk with the job. It is answered, and changes nothing more.
- it is late, because its sender has given up: refused, before anything is written.
- it is forged: the site's server takes it from its operator alone, and lets none pass over the link.
- it reaches a zombie, a site that has lost the job: refused, as the job is fenced, held or in a migration.
- the agent is killed, or the power fails: until the assignment is written the job goes on as it was, and from
  then on as adjusted. That is between two micro-batches, so each is computed with one description.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from towpath.agent.jobs import WHOLE_S, Jobs
from towpath.agent.roles import START_S
from towpath.bus.deadlines import check_in_time
from towpath.composition.adjustments import adjusted, inputs_of
from towpath.composition.job_changes import is_live
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobState
from towpath.contracts.local_commands import Adjusted, AdjustJob

REMEMBERED = 32
"""Commands that are recognised when they are repeated. Repetitions come within one deadline."""


class Adjustments:
    """Adjusts the jobs of a site."""

    def __init__(self, site: str, jobs: Jobs) -> None:
        self._site = site
        self._jobs = jobs

    async def adjust(self, command: AdjustJob) -> Adjusted:
        """Adjust a job at a boundary of its micro-batches. Raises `TowpathError` if it goes on as it was.

        In this order:
        1. The engine compiles the new plan while the job runs on.
        2. The job stops after the micro-batch under way is committed.
        3. The new assignment is written. From here on the change holds, whatever fails.
        4. The job runs.
        """
        job = command.spec.name
        known = self._jobs.get(job)
        if command.id in known.adjusted_by:
            return await self._answer(known)
        planned = await self._planned(command, known)
        if (planned.spec, planned.inputs) == (known.spec, known.inputs):
            return _answer(known, note="nothing to do: the job is already so")
        await self._jobs.engines.check(planned, self._jobs.store.checkpoint(planned))
        async with self._jobs.lock(job), self._under_way(job):
            known = self._jobs.get(job)
            if command.id not in known.adjusted_by:
                await self._change(known, await self._planned(command, known))
        return await self._answer(self._jobs.get(job))

    @asynccontextmanager
    async def _under_way(self, job: str) -> AsyncIterator[None]:
        self._jobs.adjusting.add(job)
        try:
            yield
        finally:
            self._jobs.adjusting.discard(job)

    async def _change(self, known: Assignment, planned: Assignment) -> None:
        if not is_live(known.spec, planned.spec):
            await self._stop(known)
        check_in_time()
        await self._jobs.keep_assignment(planned)
        # Killed here: the loop that restores jobs finds the version that should run.
        await self._jobs.run(planned)

    async def _planned(self, command: AdjustJob, known: Assignment) -> Assignment:
        """Return the changed assignment. Raises `TowpathError` if the site cannot, or must not, change it."""
        spec = adjusted(command.spec, known.spec, self._site)
        await self._check_free(known)
        return known.model_copy(
            update={
                "spec": spec,
                "inputs": inputs_of(spec, known.inputs),
                "adjustments": known.adjustments + 1,
                "adjusted_by": [*known.adjusted_by, command.id][-REMEMBERED:],
            }
        )

    async def _check_free(self, known: Assignment) -> None:
        job = known.spec.name
        role = await asyncio.to_thread(self._jobs.store.role, job)
        if role is not None:
            raise _busy(job, f"migration {role} is under way", f"when migration {role} has ended")
        if known.desired is not DesiredState.RUNNING:
            raise _busy(job, "an operation of the hub holds it", "when that operation has ended")
        if self._jobs.status(known).state is JobState.FENCED:
            raise TowpathError(
                ErrorCode.FENCED, f"another site owns {job} by now", field="name", value=job, allowed="there"
            )

    async def _stop(self, known: Assignment) -> None:
        """Stop the job at a boundary. One that fails again and again has none, and is changed where it is.

        Then the micro-batch that failed is repeated with the new parameters, under equal message ids.
        """
        failing = self._jobs.status(known).state in (JobState.RETRYING, JobState.FAILED)
        await self._jobs.halt(known, WHOLE_S)
        unfinished = await self._jobs.unfinished(known)
        if unfinished is not None and not failing:
            # The loop that restores jobs runs it again as it was.
            why = f"micro-batch {unfinished} is not finished"
            raise _busy(known.spec.name, why, "in a moment: the micro-batch is finished first")

    async def _answer(self, changed: Assignment) -> Adjusted:
        await self._jobs.until_running(changed.spec.name, changed.epoch, START_S)
        return _answer(changed, note="the hub adopts the change when the link is there")


def _answer(assignment: Assignment, *, note: str) -> Adjusted:
    return Adjusted(
        job=assignment.spec.name,
        epoch=assignment.epoch,
        revision=assignment.revision,
        adjustments=assignment.adjustments,
        note=note,
    )


def _busy(job: str, why: str, allowed: str) -> TowpathError:
    return TowpathError(
        ErrorCode.BUSY, f"{job} cannot be changed now: {why}", field="name", value=job, allowed=allowed
    )
