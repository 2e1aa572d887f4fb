"""The site as a standby: copies of a job's inputs and state wait here, and it goes on from them.

The copy of the state lies where the state of jobs that have left lies, so that less has to travel when
one comes back. Beside it, a note says what it is.

Every handler may be interrupted at any line and called again.
"""

from __future__ import annotations

import asyncio
import logging

from nats.errors import Error as NatsError

from towpath.agent.assignments import beginnings_of, going_on_after, owned
from towpath.agent.jobs import Jobs
from towpath.agent.reception import Reception
from towpath.agent.roles import LOOK_S, RECEIVED_S, START_S
from towpath.checkpoints.inventory import inventory
from towpath.contracts.data_plane import mirror_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Assignment, DesiredState
from towpath.contracts.migration import Resumed
from towpath.contracts.reply import Done
from towpath.contracts.standby import (
    HoldMirrors,
    KeepStandby,
    PromoteOutput,
    StandbyCopy,
    StandbyKept,
    TakeOver,
)
from towpath.streams.ownership import check_epoch
from towpath.tasks import NotInTime, until

log = logging.getLogger(__name__)


class Standbys:
    """One method per command."""

    def __init__(self, jobs: Jobs, reception: Reception) -> None:
        self._jobs = jobs
        self._reception = reception

    async def keep(self, command: KeepStandby) -> StandbyKept:
        """See `KeepStandby`."""
        wanted = command.assignment
        job, store = wanted.spec.name, self._jobs.store
        async with self._jobs.lock(job):
            known = self._jobs.assignments.get(job)
            if known is not None:
                self._check_standby(known, wanted)
                if not command.needed and (known.output != wanted.output or not command.copies_output):
                    await self._jobs.output_copies.drop(known, wanted.epoch)
                wanted = going_on_after(wanted, beginnings_of(known))
            if known != wanted:
                wanted = await self._jobs.settle_beginnings(wanted)
                await self._jobs.keep_assignment(wanted)
            if command.arrived is not None:
                await self._adopt(wanted, command.arrived)
            state = await asyncio.to_thread(store.standby_copy, wanted)
            if command.needed and state is None:
                raise TowpathError(
                    ErrorCode.NOT_ALLOWED,
                    f"{self._site} has no copy of the state of {job}",
                    field="job",
                    value=job,
                    allowed="a job whose standby has had time for a first copy",
                )
            if not command.needed:  # Else the origin of inputs and output may be lost.
                processed = state.serials if state else command.after_serials
                await self._jobs.prepare_inputs(wanted, processed)
                if command.copies_output:
                    await self._copy_output(wanted)
            await self._jobs.engines.expect(wanted.spec.container)
            await self._reception.open(wanted)
        have = await asyncio.to_thread(inventory, store.cache(job))
        return StandbyKept(
            have=have,
            transfer=self._reception.name_of(command.operation),
            state=state,
            mirrored=await self._mirrored(wanted),
            has_output=await self._jobs.output_copies.has_caught_up(wanted.output),
        )

    async def _copy_output(self, assignment: Assignment) -> None:
        """Copy the job's output. If that fails, only log it: the state must still be copied."""
        try:
            await self._jobs.output_copies.keep(assignment.output, assignment.epoch)
        except (TowpathError, NatsError, OSError) as error:
            log.warning("the output of %s is not copied: %s", assignment.spec.name, error)

    def _check_standby(self, known: Assignment, wanted: Assignment) -> None:
        """Raise `TowpathError` if the job runs here, or is about to."""
        check_epoch(f"{wanted.spec.name} at this site", wanted.epoch, known.epoch)
        if known.desired is not DesiredState.STANDBY and known.epoch == wanted.epoch:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                f"{self._site} is no standby of {wanted.spec.name}: the job is {known.desired} here",
                field="site",
                value=self._site,
            )

    @property
    def _site(self) -> str:
        return self._jobs.streams.site

    async def _adopt(self, assignment: Assignment, arrived: StandbyCopy) -> None:
        """Make the state that has arrived the copy, once the last of it is on the disk."""
        store = self._jobs.store
        try:
            await until(
                lambda: asyncio.to_thread(store.adopt_standby, assignment, arrived), RECEIVED_S, LOOK_S
            )
        except NotInTime as error:
            raise TowpathError(
                ErrorCode.FAILED,
                "the state has not arrived completely",
                field="arrived.digest",
                value=arrived.digest,
            ) from error

    async def _mirrored(self, assignment: Assignment) -> dict[str, int]:
        """Return the last serial number of each input that can be read without the owner's site."""
        streams = self._jobs.streams
        found: dict[str, int] = {}
        for entry in assignment.inputs:
            name = await streams.mirrors.ensure(entry, entry.after_serial)
            found[entry.name] = (await streams.view(streams.site, name)).last
        return found

    async def hold_mirrors(self, command: HoldMirrors) -> Done:
        """See `HoldMirrors`."""
        for stream in command.streams:
            await self._jobs.streams.mirrors.hold(mirror_stream(command.home_site, stream))
        return Done()

    async def promote_output(self, command: PromoteOutput) -> Done:
        """See `PromoteOutput`."""
        async with self._jobs.lock(command.job):
            await self._jobs.output_copies.promote(
                command.job, command.epoch, command.output, command.readers
            )
        return Done()

    async def take_over(self, command: TakeOver) -> Resumed:
        """See `TakeOver`."""
        wanted = owned(command.assignment)
        job, store = wanted.spec.name, self._jobs.store
        async with self._jobs.lock(job):
            known = self._jobs.get(job)
            check_epoch(f"{job} at this site", wanted.epoch, known.epoch)
            if known.desired is DesiredState.STANDBY:
                await self._reception.close(job)
                await asyncio.to_thread(store.begin_from_standby, known, wanted)
                # As settled here: `earliest` was decided long ago.
                wanted = going_on_after(wanted, beginnings_of(known))
            else:
                wanted = owned(known.model_copy(update={"epoch": wanted.epoch}))
            await self._jobs.keep_assignment(wanted)
            await self._jobs.run(wanted)
            await self._jobs.drop_unread(known)
        await self._jobs.until_running(job, wanted.epoch, START_S)
        return Resumed(serials=self._jobs.position(wanted))
