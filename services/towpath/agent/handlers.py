"""The site's answers to commands: what `contracts/PROTOCOL.md` says source, target and output site must do.

Every handler may be interrupted at any line and be called again: it records first what is to be
done, and looks at what is there before it does anything.
"""

from __future__ import annotations

import asyncio
import logging
import shutil

from redis.asyncio import Redis

from towpath.agent.jobs import Jobs
from towpath.checkpoints.layout import inventory
from towpath.checkpoints.transfer import receive, send
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState, JobStatus
from towpath.contracts.message import new_identifier
from towpath.contracts.migration import (
    AssignRole,
    CheckSpec,
    DropOutput,
    Launched,
    LaunchRetrieve,
    ObserveProgress,
    Paused,
    PauseTransfer,
    ResetRole,
    Resumed,
    ResumeJob,
    Role,
    SetEpoch,
    StartJob,
    StopJob,
)
from towpath.contracts.reply import Done
from towpath.streams.streams import SiteStreams

log = logging.getLogger(__name__)

START_S = 45.0
"""For a query to start: one or two seconds in a warm engine, more while an engine restarts."""

TRANSFER_S = 30.0
"""Without the target taking anything for so long, the source gives up and may be told to resume."""

RECEIVED_S = 10.0
"""The source has seen the target take the last chunk; this is for the target to write it down."""

OBSERVE_S = 12.0


class Handlers:
    """One method per command."""

    def __init__(self, site: str, jobs: Jobs, streams: SiteStreams, redis: Redis) -> None:
        self.site = site
        self.jobs = jobs
        self.streams = streams
        self.redis = redis
        self._receiving: dict[str, asyncio.Task[None]] = {}

    async def recover(self) -> None:
        """After a restart of the agent: go on receiving state for jobs that wait for it."""
        for assignment in self.jobs.assignments.values():
            if assignment.desired is DesiredState.HELD and assignment.migration is not None:
                self._receive(assignment)

    async def close(self) -> None:
        """End what is under way."""
        for job in list(self._receiving):
            await self._stop_receiving(job)

    async def check_spec(self, command: CheckSpec) -> Done:
        """Let the engine build the job's plan."""
        # Settled first: then the plan is the one that `start_job` will need.
        settled = await self.jobs.settle_beginnings(command.assignment)
        await self.jobs.engine.analyse(settled, self.jobs.store.checkpoint(settled))
        return Done()

    async def set_epoch(self, command: SetEpoch) -> Done:
        """Let the output accept one epoch only."""
        await self.streams.set_epoch(command.job, command.epoch, command.output)
        return Done()

    async def drop_output(self, command: DropOutput) -> Done:
        """Delete an output."""
        await self.streams.drop_output(command.job)
        return Done()

    async def start_job(self, command: StartJob) -> Done:
        """Run a job here. With another assignment than before: instead of that."""
        wanted = command.assignment
        job = wanted.spec.name
        async with self.jobs.lock(job):
            known = self.jobs.assignments.get(job)
            if known is None:
                await asyncio.to_thread(self.jobs.store.forget, job)
            elif known.epoch > wanted.epoch:
                raise _outdated(job, wanted.epoch, known.epoch)
            elif known.generation == wanted.generation:
                # The checkpoint decides where it goes on; `earliest` was settled when it began.
                wanted = _with_beginnings_of(wanted, known)
            assignment = await self.jobs.prepare_inputs(wanted)
            await self.jobs.keep_assignment(assignment)
            await self.jobs.run(assignment)
        await self.jobs.until_running(job, assignment.epoch, START_S)
        return Done()

    async def stop_job(self, command: StopJob) -> Paused:
        """Stop a job here and hold it, or forget it. One that is not here is stopped already."""
        job = command.job
        async with self.jobs.lock(job):
            assignment = self.jobs.assignments.get(job)
            if assignment is None:
                return Paused(serials={}, batch=None, last_processed_at=None)
            await self._stop_receiving(job)
            await self.jobs.keep_assignment(_held(assignment, None))
            paused = await self.jobs.halt(assignment)
            if command.forget:
                await self.jobs.drop(assignment, forget=True)
            return paused

    async def assign_role(self, command: AssignRole) -> Done:
        """Take a role, if it can be fulfilled."""
        if command.role is Role.SOURCE:
            self.jobs.get(command.job)
        elif not await self.jobs.engine.answers():
            raise TowpathError(
                ErrorCode.SITE_DOWN, "the engine does not answer", field="site", value=self.site
            )
        return Done()

    async def launch_retrieve(self, command: LaunchRetrieve) -> Launched:
        """Target: prepare everything, consume nothing, watch the state store."""
        job = command.assignment.spec.name
        async with self.jobs.lock(job):
            known = self.jobs.assignments.get(job)
            if known is not None and known.epoch >= command.assignment.epoch:
                if known.migration != command.operation:
                    raise _outdated(job, command.assignment.epoch, known.epoch)
            else:
                await asyncio.to_thread(self.jobs.store.drop_incoming, job)
            held = _held(command.assignment, command.operation)
            prepared = await self.jobs.prepare_inputs(held, command.after_serials)
            await self.jobs.keep_assignment(prepared)
            self._receive(prepared)
            await self.jobs.engine.analyse(prepared, self.jobs.store.checkpoint(prepared))
        have = await asyncio.to_thread(inventory, self.jobs.store.cache(job))
        return Launched(have=have)

    async def pause_transfer(self, command: PauseTransfer) -> Paused:
        """Source: stop at a boundary, then send the state. The source keeps it, too."""
        async with self.jobs.lock(command.job):
            assignment = self.jobs.get(command.job)
            held = _held(assignment, None)
            await self.jobs.keep_assignment(held)
            paused = await self.jobs.halt(held)
            if not command.transfer_state:
                return paused
            sent = await send(
                self.redis,
                command.operation,
                self.jobs.store.checkpoint(held),
                command.have,
                generation=new_identifier(),
                within_s=TRANSFER_S,
            )
            return paused.model_copy(
                update={"files": sent.files, "state_bytes": sent.state_bytes, "digest": sent.digest}
            )

    async def resume(self, command: ResumeJob) -> Resumed:
        """Consume from here on: with the state that arrived, without state, or with what was here."""
        job = command.job
        async with self.jobs.lock(job):
            assignment = self.jobs.get(job)
            if assignment.epoch > command.epoch:
                raise _outdated(job, command.epoch, assignment.epoch)
            if assignment.desired is not DesiredState.RUNNING:
                assignment = await self._restored(assignment, command)
            running = assignment.model_copy(update={"epoch": command.epoch, "desired": DesiredState.RUNNING})
            await self.jobs.keep_assignment(running)
            await self.jobs.run(running)
        await self.jobs.until_running(job, command.epoch, START_S)
        size = sum(p.stat().st_size for p in self.jobs.store.checkpoint(running).rglob("*") if p.is_file())
        return Resumed(serials=self.jobs.position(running), restored_bytes=size)

    async def _restored(self, assignment: Assignment, command: ResumeJob) -> Assignment:
        """Bring the state into place that the job goes on with."""
        if command.after_serials is not None:
            await self._stop_receiving(command.job)
            await asyncio.to_thread(self.jobs.store.start_afresh, assignment)
            return _after(assignment, command.after_serials)
        if command.digest is not None:
            await self._adopt(assignment, command.digest)
        return assignment

    async def _adopt(self, assignment: Assignment, digest: str) -> None:
        loop = asyncio.get_running_loop()
        end = loop.time() + RECEIVED_S
        while not await asyncio.to_thread(self.jobs.store.adopt_incoming, assignment, digest):
            if loop.time() > end:
                raise TowpathError(
                    ErrorCode.FAILED, "the state has not arrived completely", field="digest", value=digest
                )
            await asyncio.sleep(0.05)
        await self._stop_receiving(assignment.spec.name)

    async def observe(self, command: ObserveProgress) -> JobStatus:
        """Wait for the first micro-batch with events."""
        return await self.jobs.until_progress(command.job, OBSERVE_S)

    async def reset(self, command: ResetRole) -> Done:
        """End a migration: an ordinary owner from now on, or nothing."""
        job = command.job
        async with self.jobs.lock(job):
            await self._stop_receiving(job)
            assignment = self.jobs.assignments.get(job)
            if assignment is None:
                return Done(note="nothing was here")
            if command.keep_job:
                await self.jobs.keep_assignment(assignment.model_copy(update={"migration": None}))
                await asyncio.to_thread(shutil.rmtree, self.jobs.store.cache(job), ignore_errors=True)
                return Done()
            await self.jobs.halt(assignment)
            await self.jobs.drop(assignment, forget=False)
        return Done()

    def _receive(self, assignment: Assignment) -> None:
        """Watch the state store. A transfer that begins anew is received anew, until the job resumes."""
        job = assignment.spec.name
        if job in self._receiving:
            return

        async def watch() -> None:
            assert assignment.migration is not None
            store = self.jobs.store
            while True:
                try:
                    await receive(
                        self.redis,
                        assignment.migration,
                        store.incoming(job),
                        store.cache(job),
                        consumer=self.site,
                    )
                except TowpathError as error:
                    log.error("state of %s: %s", job, error)

        self._receiving[job] = asyncio.create_task(watch(), name=f"receive {job}")

    async def _stop_receiving(self, job: str) -> None:
        task = self._receiving.pop(job, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _held(assignment: Assignment, migration: str | None) -> Assignment:
    return assignment.model_copy(update={"desired": DesiredState.HELD, "migration": migration})


def _after(assignment: Assignment, serials: dict[str, int]) -> Assignment:
    inputs = [
        entry.model_copy(update={"after_serial": serials.get(entry.name, entry.after_serial)})
        for entry in assignment.inputs
    ]
    return assignment.model_copy(update={"inputs": inputs})


def _with_beginnings_of(assignment: Assignment, known: Assignment) -> Assignment:
    begun = {e.name: e.after_serial for e in known.inputs if e.after_serial is not None}
    return _after(assignment, begun)


def _outdated(job: str, epoch: int, known: int) -> TowpathError:
    return TowpathError(
        ErrorCode.FENCED,
        f"{job} is at epoch {known} here already",
        field="epoch",
        value=epoch,
        allowed=f"{known} or more",
    )
