"""The agent as source or target of a migration: `contracts/PROTOCOL.md`, sections 8 to 10.

Every handler may be interrupted at any line and called again. So it first records what must be done, and
looks at the present state before it does anything.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from redis.asyncio import Redis

from towpath.agent.assignments import going_on_after, held, owned
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.bus.deadlines import check_in_time
from towpath.checkpoints.inventory import inventory
from towpath.checkpoints.transfer import Sent, send
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobStatus
from towpath.contracts.message import new_identifier
from towpath.contracts.migration import (
    RECONCILIATION,
    AssignRole,
    Launched,
    LaunchRetrieve,
    ObserveProgress,
    Paused,
    PauseTransfer,
    ResetRole,
    Resumed,
    ResumeJob,
    Role,
    ShipCheckpoint,
    Shipped,
)
from towpath.contracts.reply import Done
from towpath.contracts.standby import standby_operation
from towpath.engines.checkpoint_format import CheckpointFormat, Shipment
from towpath.streams.ownership import check_epoch, epoch_is_over
from towpath.tasks import NotInTime, end, to_the_end, until

log = logging.getLogger(__name__)

T = TypeVar("T")

START_S = 45.0
"""Time for a query to start: one or two seconds in a warm engine, more while an engine restarts."""

REST_WHILE_RUNNING = 1.0
"""Rest per time of sending while the job runs. Results wait for a sender, so it works half of the time."""

PAUSED_S, RUNNING_S = 20.0, 120.0
"""Time without progress at the target after which the source gives up, while its job is paused, and while it
runs on. The agent of a target that was killed is back in 13 s; one that lost its disks takes no state any
more, and a paused job must not wait for it. A running one may wait for a link."""

RECEIVED_S = 10.0
"""Time for the target to write the last chunk after the source has seen it taken."""

LOOK_S = 0.05
"""Pause between two looks for that chunk."""

OBSERVE_S = 12.0


class Roles:
    """One method per command of a migration."""

    def __init__(self, site: str, jobs: Jobs, reception: Reception, redis: Redis) -> None:
        self.site = site
        self.jobs = jobs
        self.reception = reception
        self.redis = redis
        self._sending: dict[str, asyncio.Task[Any]] = {}
        """Transfers under way, by job. A command to the source to go on ends them."""

    async def recover(self) -> None:
        """After a restart of the agent, continue to receive state for jobs that wait for it."""
        for assignment in self.jobs.assignments.values():
            outgoing = self.jobs.store.outgoing(assignment.spec.name)  # Nothing is being sent now.
            await asyncio.to_thread(shutil.rmtree, outgoing, ignore_errors=True)
            waits = assignment.desired in (DesiredState.HELD, DesiredState.STANDBY)
            if waits and assignment.migration is not None:
                await self.reception.open(assignment)

    async def assign_role(self, command: AssignRole) -> Done:
        """Take a role, if this site can fill it."""
        if command.role is Role.SOURCE:
            self.jobs.get(command.job)
        else:
            # The engine may need seconds to start: it does while the state travels.
            await self.jobs.engines.expect(command.container)
        await asyncio.to_thread(self.jobs.store.take_role, command.job, command.operation)
        # The role first: an adjustment looks for it after it has said that it is under way.
        if command.role is Role.SOURCE and self._is_adjusted(command):
            await asyncio.to_thread(self.jobs.store.end_role, command.job)
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{self.site} has adjusted {command.job}, and the migration would lose that",
                field="job",
                value=command.job,
                allowed="in a moment: the registry adopts the adjustment first",
            )
        return Done()

    def _is_adjusted(self, command: AssignRole) -> bool:
        """True if the site adjusts the job, or has done so, and the operation does not know it."""
        known = command.adjustments
        job = self.jobs.get(command.job)
        return command.job in self.jobs.adjusting or (known is not None and job.adjustments > known)

    async def _with_role(self, job: str, operation: str) -> None:
        """Raise `TowpathError` (not allowed) for a command of a migration that has ended here."""
        if not await asyncio.to_thread(self.jobs.store.has_role, job, operation):
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{self.site} has no role in this migration of {job}",
                field="operation",
                value=operation,
            )

    async def launch_retrieve(self, command: LaunchRetrieve) -> Launched:
        """Target: prepare everything, consume nothing, and watch the state store."""
        job, store = command.assignment.spec.name, self.jobs.store
        async with self.jobs.lock(job):
            await self._with_role(job, command.operation)
            known = self.jobs.assignments.get(job)
            if known is not None and known.epoch >= command.assignment.epoch:
                if known.migration != command.operation:
                    raise epoch_is_over(f"{job} at this site", command.assignment.epoch, known.epoch)
                if known.desired is DesiredState.RUNNING:
                    return Launched()  # A late repetition: the job was launched long ago.
            else:
                await self.reception.close(job)  # This site may be the job's standby.
                await asyncio.to_thread(store.drop_incoming, job)
            waiting = held(command.assignment, command.operation)
            prepared = await self.jobs.prepare_inputs(waiting, command.after_serials)
            await self.jobs.keep_assignment(prepared)
            await self.reception.open(prepared)
            await self.jobs.engines.analyse(prepared, store.checkpoint(prepared))
        have = await asyncio.to_thread(inventory, store.cache(job))
        return Launched(have=have, transfer=self.reception.name_of(command.operation))

    async def pause_transfer(self, command: PauseTransfer) -> Paused:
        """Source: stop at a boundary, and then send the state. The source keeps it, too."""
        async with self.jobs.lock(command.job):
            await self._with_role(command.job, command.operation)
            waiting = held(self.jobs.get(command.job), None)
            await self.jobs.keep_assignment(waiting)
            paused = await self.jobs.halt(waiting)
            if not command.transfer_state:
                return paused
            checkpoint = self.jobs.store.checkpoint(waiting)
            sent = await self._unless_called_off(
                command.job, lambda: self._send(command, checkpoint, command.have)
            )
            return paused.model_copy(
                update={"files": sent.files, "state_bytes": sent.state_bytes, "digest": sent.digest}
            )

    async def ship_checkpoint(self, command: ShipCheckpoint) -> Shipped:
        """Source, or owner of a job with a standby: send the state of the running job, and then its changes
        until they are small."""
        owned_epoch = self.jobs.get(command.job).epoch
        if command.operation != standby_operation(command.job, owned_epoch):
            await self._with_role(command.job, command.operation)
        elif await asyncio.to_thread(self.jobs.store.role, command.job) is not None:
            raise TowpathError(ErrorCode.BUSY, "the job is about to move", field="job", value=command.job)
        return await self._unless_called_off(command.job, lambda: self._ship(command))

    async def _ship(self, command: ShipCheckpoint) -> Shipped:
        assignment = self.jobs.get(command.job)
        store = self.jobs.store
        have, rounds, files = dict(command.have), list[int](), 0
        checkpoints = store.checkpoints
        outgoing = store.outgoing(command.job)
        async with shipment_of(checkpoints, store.checkpoint(assignment), outgoing) as shipment:
            while True:
                batch = await to_the_end(asyncio.to_thread(shipment.renew))
                sent = await self._send(command, shipment.copy, have)
                rounds.append(sent.state_bytes)
                files += sent.files
                if sent.state_bytes <= command.enough_bytes or len(rounds) >= command.rounds:
                    break
                have = sent.inventory
            at = await asyncio.to_thread(checkpoints.paused, shipment.copy, assignment)
        return Shipped(
            serials=at.serials,
            batch=batch,
            digest=sent.digest,
            files=files,
            state_bytes=sum(rounds),
            round_bytes=rounds,
        )

    async def _send(
        self, command: PauseTransfer | ShipCheckpoint, checkpoint: Path, have: dict[str, str]
    ) -> Sent:
        """Send the state that the target lacks."""
        runs_on = isinstance(command, ShipCheckpoint)
        return await send(
            self.redis,
            command.operation,
            checkpoint,
            have,
            name=command.transfer,
            generation=new_identifier(),
            within_s=RUNNING_S if runs_on else PAUSED_S,
            files_of=self.jobs.store.checkpoints.inventory,
            job=command.job,
            rest=REST_WHILE_RUNNING if runs_on else 0.0,
        )

    async def _unless_called_off(self, job: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run work that sends state, unless the source is told meanwhile that it is not needed.

        An earlier migration's transfer of the same job is ended first, because both use the same directory.
        """
        while job in self._sending:
            await self._call_off(job)
        sending = asyncio.create_task(work(), name=f"send {job}")
        self._sending[job] = sending
        try:
            await asyncio.wait({sending})
        finally:
            await end([sending])
            if self._sending.get(job) is sending:
                del self._sending[job]
        if sending.cancelled():
            raise TowpathError(ErrorCode.FAILED, "the transfer was cancelled", field="job", value=job)
        return sending.result()

    async def _call_off(self, job: str) -> None:
        """End a transfer under way, because it holds the job and is no longer needed."""
        await end([self._sending.get(job)])

    async def resume(self, command: ResumeJob) -> Resumed:
        """Consume from here on: with the state that arrived, without state, or with that which was here."""
        job = command.job
        await self._call_off(job)
        async with self.jobs.lock(job):
            assignment = self.jobs.get(job)
            check_epoch(f"{job} at this site", command.epoch, assignment.epoch)
            if assignment.desired is not DesiredState.RUNNING:
                assignment = await self._restored(assignment, command)
            running = assignment.model_copy(update={"epoch": command.epoch, "desired": DesiredState.RUNNING})
            await self.jobs.keep_assignment(running)
            await self.jobs.run(running)
        await self.jobs.until_running(job, command.epoch, START_S)
        size = sum(p.stat().st_size for p in self.jobs.store.checkpoint(running).rglob("*") if p.is_file())
        return Resumed(serials=self.jobs.position(running), restored_bytes=size)

    async def _restored(self, assignment: Assignment, command: ResumeJob) -> Assignment:
        """Move the state into place with which the job continues."""
        if command.after_serials is not None:
            await self.reception.close(command.job)
            await asyncio.to_thread(self.jobs.store.start_afresh, assignment)
            return going_on_after(assignment, command.after_serials)
        if command.digest is not None:
            await self._adopt(assignment, command.digest)
        return assignment

    async def _adopt(self, assignment: Assignment, digest: str) -> None:
        adopt = self.jobs.store.adopt_incoming
        try:
            await until(lambda: asyncio.to_thread(adopt, assignment, digest), RECEIVED_S, LOOK_S)
        except NotInTime as error:
            raise TowpathError(
                ErrorCode.FAILED, "the state has not arrived completely", field="digest", value=digest
            ) from error
        await self.reception.close(assignment.spec.name)

    async def observe(self, command: ObserveProgress) -> JobStatus:
        """Wait for the first micro-batch with events."""
        return await self.jobs.until_progress(command.job, OBSERVE_S)

    async def reset(self, command: ResetRole) -> Done:
        """End a migration: this site is then an ordinary owner of the job, or has nothing of it.

        An operation ends only the role that it gave. Reconciliation tells every site that has the job.
        """
        job, store = command.job, self.jobs.store
        by_reconciliation = command.operation.startswith(RECONCILIATION)
        if not by_reconciliation and not await asyncio.to_thread(store.has_role, job, command.operation):
            return Done(note="no role in this migration")
        await self._call_off(job)
        async with self.jobs.lock(job):
            await self.reception.close(job)
            assignment = self.jobs.assignments.get(job)
            if assignment is None:
                await asyncio.to_thread(store.end_role, job)
                return Done(note="nothing was here")
            if command.epoch is not None and assignment.epoch > command.epoch:
                return Done(note=f"{job} was given to {self.site} again")
            if command.keep_job:
                running = owned(assignment)
                await self.jobs.keep_assignment(running)
                if assignment.desired is not DesiredState.RUNNING:
                    await self.jobs.run(running)
                await asyncio.to_thread(shutil.rmtree, store.cache(job), ignore_errors=True)
            else:
                # A later operation may have begun since the sender stopped waiting.
                check_in_time()
                await self.jobs.halt(assignment)
                await self.jobs.drop(assignment, forget=False, used_epoch=command.epoch)
            # Last, so that an agent killed before is told to reset again and does so.
            await asyncio.to_thread(store.end_role, job)
        return Done()


@asynccontextmanager
async def shipment_of(
    checkpoints: CheckpointFormat, checkpoint: Path, directory: Path
) -> AsyncIterator[Shipment]:
    """Keep what a shipment may need until its end, and then delete its directory."""
    await to_the_end(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))
    shipment = checkpoints.shipment(checkpoint, directory)
    keeping = asyncio.create_task(_keep(shipment), name=f"keep changelogs of {checkpoint}")
    try:
        yield shipment
    finally:
        # Wait in spite of cancellations, because the next shipment has the same directory.
        await to_the_end(_put_away(keeping, directory))


async def _put_away(keeping: asyncio.Task[None], directory: Path) -> None:
    await end([keeping])
    await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)


async def _keep(shipment: Shipment) -> None:
    while True:
        try:
            await to_the_end(asyncio.to_thread(shipment.keep))
        except OSError as error:
            log.warning("changelogs were not kept, so more state may have to be sent: %s", error)
        await asyncio.sleep(shipment.keep_every_s)
