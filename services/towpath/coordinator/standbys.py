"""Renew the copies that standbys have: one round after the other for each job that has one.

A round asks the standby what it has, lets the owner send the rest, and tells the standby what has arrived. It
leaves no trace in the registry: whatever is lost or repeated, the next round does it again. A job that moves,
or is changed, is left alone meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from nats.errors import Error as NatsError

from towpath.bus import Bus
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import Standby
from towpath.contracts.message import now
from towpath.contracts.migration import ShipCheckpoint
from towpath.contracts.site import Capability, SiteState
from towpath.contracts.standby import (
    KeepStandby,
    ListStandbys,
    StandbyCopy,
    StandbyKept,
    StandbyList,
    StandbyView,
)
from towpath.coordinator.jobs.failover import is_copied
from towpath.coordinator.registry.jobs import in_time
from towpath.coordinator.situation import Situation
from towpath.protocols.operations.failover import keep_standby
from towpath.protocols.record import JobEntry
from towpath.protocols.shared_steps import SHIP_S
from towpath.tasks import end
from towpath.telemetry.tracing import untraced

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
KEEP_S = 30.0
"""Deadline of the standby's answer: its engine may have to start."""

ATTEMPT_S = 10.0
"""A site that was restarted meanwhile does not know that it was asked."""

AT_ONCE = 4
"""Rounds at a time: each takes some of the CPU of two sites."""


class Standbys:
    """Rounds of all jobs that have a standby, and what they found."""

    def __init__(self, situation: Situation, clock: Callable[[], float] = time.monotonic) -> None:
        self._situation = situation
        self._clock = clock
        self._rounds: dict[str, asyncio.Task[None]] = {}
        self._due: dict[str, float] = {}
        self._kept: dict[str, StandbyKept] = {}
        self._troubles: dict[str, str] = {}
        self._at_once = asyncio.Semaphore(AT_ONCE)

    async def serve(self, bus: Bus) -> None:
        """Listen for all commands."""
        await bus.serve(ListStandbys, self.list_standbys)

    async def list_standbys(self, _: ListStandbys) -> StandbyList:
        """See `ListStandbys`."""
        jobs = await in_time(self._situation.registry.jobs())
        return StandbyList(standbys=[self.view(entry) for entry in jobs.values() if entry.spec.standby])

    def view(self, entry: JobEntry) -> StandbyView:
        """Return how far behind the standby of a job is. The job must have one."""
        assert entry.spec.standby is not None, f"{entry.spec.name} has no standby"
        job, standby = entry.spec.name, entry.spec.standby
        kept = self._kept.get(job)
        state = kept.state if kept else None
        sites, there = self._situation.sites, standby.site == entry.site
        status = sites.job(entry.site, job)
        processed = status.serials if status and status.epoch == entry.epoch else None
        is_down = sites.state(entry.site) is SiteState.DOWN
        return StandbyView(
            job=job,
            site=entry.site,
            standby=standby.site,
            every_s=standby.every_s,
            behind_s=None if state is None or there else _age_s(state.taken_at),
            behind_events=None if state is None or there else _beyond(processed, state.serials),
            lost_events=None if kept is None or there else _beyond(processed, kept.mirrored),
            unheard_s=round(sites.silent_s(entry.site), 1) if is_down else None,
            note="the job runs at its standby" if there else self._troubles.get(job, ""),
        )

    async def ask(self, entry: JobEntry) -> StandbyView:
        """Ask the standby of a job whose site is lost what it has by now, and return how far behind that is.

        Mirrors go on between rounds. Raises `TowpathError` if the standby has no copy.
        """
        assert entry.spec.standby is not None, f"{entry.spec.name} has no standby"
        keep = self._keep(entry, entry.spec.standby, needed=True)
        kept = await self._situation.bus.request(keep, deadline_s=KEEP_S, attempt_s=ATTEMPT_S)
        self._kept[entry.spec.name] = kept
        return self.view(entry)

    async def watch(self) -> None:
        """Begin rounds that are due, and end those of lost sites, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                await self._look()
        finally:
            await end(self._rounds.values())

    async def _look(self) -> None:
        jobs, locks = await self._situation.registry.jobs(), await self._situation.registry.locks()
        for known in (self._kept, self._due, self._troubles):
            for job in known.keys() - jobs.keys():
                del known[job]
        may_run = {job for job, entry in jobs.items() if self._may_run(entry)}
        # A lost site never answers, and others wait for their turn.
        await end(round_ for job, round_ in self._rounds.items() if job not in may_run)
        for job, entry in jobs.items():
            standby, running = entry.spec.standby, self._rounds.get(job)
            if standby is None or job not in may_run or job in locks:
                continue
            if (running is None or running.done()) and self._clock() >= self._due.get(job, 0.0):
                self._due[job] = self._clock() + standby.every_s
                self._rounds[job] = asyncio.create_task(self._guarded(entry, standby), name=f"standby {job}")

    def _may_run(self, entry: JobEntry) -> bool:
        standby = entry.spec.standby
        if standby is None:
            return False
        up = all(self._situation.sites.state(site) is SiteState.UP for site in (entry.site, standby.site))
        return up and entry.running and standby.site != entry.site

    async def _guarded(self, entry: JobEntry, standby: Standby) -> None:
        job = entry.spec.name
        try:
            # Repeated until stopped, so it belongs to no trace.
            async with self._at_once:
                with untraced():
                    await self._round(entry, standby)
        except (TowpathError, NatsError, OSError) as error:
            self._troubles[job] = str(error)
            log.info("the standby of %s is not renewed: %s", job, error)
        else:
            self._troubles.pop(job, None)

    def _keep(self, entry: JobEntry, standby: Standby, *, needed: bool = False) -> KeepStandby:
        status = self._situation.sites.job(entry.site, entry.spec.name)
        serials = status.serials if status and status.epoch == entry.epoch else {}
        return keep_standby(
            entry,
            standby.site,
            after_serials=serials,
            needed=needed,
            copies_output=is_copied(entry, standby.site, self._situation.sites),
        )

    async def _round(self, entry: JobEntry, standby: Standby) -> None:
        job, bus = entry.spec.name, self._situation.bus
        self._situation.sites.check_can(standby.site, Capability.STANDBY, "standby.site")
        keep = self._keep(entry, standby)
        kept = await bus.request(keep, deadline_s=KEEP_S, attempt_s=ATTEMPT_S)
        taken_at = now()
        ship = ShipCheckpoint(
            site=entry.site,
            operation=keep.operation,
            job=job,
            have=kept.have,
            transfer=kept.transfer,
            rounds=1,
        )
        shipped = await bus.request(ship, deadline_s=SHIP_S, attempt_s=ATTEMPT_S)
        if shipped.batch is not None:  # Else there is nothing to copy yet.
            arrived = StandbyCopy(
                epoch=entry.epoch,
                generation=entry.generation,
                digest=shipped.digest,
                serials=shipped.serials,
                taken_at=taken_at,
            )
            then = KeepStandby(**{**keep.model_dump(exclude={"id"}), "arrived": arrived})
            kept = await bus.request(then, deadline_s=KEEP_S, attempt_s=ATTEMPT_S)
        self._kept[job] = kept


def _age_s(taken_at: datetime) -> float:
    return round(max(0.0, (now() - taken_at).total_seconds()), 1)


def _beyond(processed: Mapping[str, int] | None, copied: Mapping[str, int]) -> int | None:
    """Return the events that are processed and not copied. None: it is not known what is processed."""
    if processed is None:
        return None
    return sum(max(0, serial - copied.get(name, 0)) for name, serial in processed.items())
