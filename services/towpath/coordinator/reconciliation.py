"""Compare desired and actual state: correct sites whose heartbeats differ from the registry.

A job with an operation under way is left alone, and so is one that a site has under a later epoch than the
registry knows: then the registry is wrong, see `towpath.coordinator.overtaken`. What a site has
adjusted itself the registry adopts, see `towpath.coordinator.jobs.adoption`. The commands sent here are
idempotent and carry the registry's epoch, so sending one too often changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from towpath.contracts.commands import UpdateJob
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobState, JobStatus
from towpath.contracts.message import Event, new_identifier
from towpath.contracts.migration import RECONCILIATION, ResetRole, SetEpoch, SiteCommand
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.site_commands import StartJob, StopJob
from towpath.coordinator.jobs.adoption import plan_adoption
from towpath.coordinator.jobs.operations import Operations
from towpath.coordinator.jobs.plans import Nothing
from towpath.coordinator.overtaken import Overtaken, overtaken
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.situation import Situation, is_newer
from towpath.protocols.record import FormerJob, JobEntry

log = logging.getLogger(__name__)

TELL_S = 5.0
WRONG_FOR_S = 3.0
"""Time that a difference must last: a heartbeat from before an operation's end is no evidence."""


@dataclass(frozen=True)
class SiteDifference:
    """A job that is not at a site as the registry says."""

    site: str
    job: str
    what: str
    """`unknown`, `ahead`, `elsewhere`, `missing`, `behind`, `adjusted`, `held` or `fenced`."""


def differences(jobs: Mapping[str, JobEntry], statuses: list[SiteStatus]) -> set[SiteDifference]:
    """Return the differences between the registry and sites that are up."""
    found: set[SiteDifference] = set()
    for status in statuses:
        for reported in status.jobs:
            what = _difference(jobs.get(reported.job), status.site, reported)
            if what is not None:
                found.add(SiteDifference(status.site, reported.job, what))
        here = {reported.job for reported in status.jobs}
        owned = [n for n, e in jobs.items() if e.site == status.site and e.running]
        found |= {SiteDifference(status.site, name, "missing") for name in owned if name not in here}
    return found


def _difference(entry: JobEntry | None, site: str, reported: JobStatus) -> str | None:
    if entry is None:
        return "unknown"
    if reported.epoch > max(entry.epoch, entry.used_epoch):
        return "ahead"
    if entry.site != site:
        return None if _is_its_standby(entry, site, reported) else "elsewhere"
    if is_newer(reported.version, entry):
        return "adjusted"
    if reported.version < entry.version:
        return "behind"
    # Fenced at the registry's epoch: its output stream missed that epoch, while its site was away.
    return reported.state.value if reported.state in (JobState.HELD, JobState.FENCED) else None


def _is_its_standby(entry: JobEntry, site: str, reported: JobStatus) -> bool:
    is_named = entry.spec.standby is not None and entry.spec.standby.site == site
    return is_named and reported.state is JobState.STANDBY


class Reconciliation:
    """Looks for differences, and corrects those that last."""

    def __init__(
        self,
        settings: CoordinatorSettings,
        situation: Situation,
        operations: Operations,
        publish: Callable[[Event], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._situation = situation
        self._registry = situation.registry
        self._sites = situation.sites
        self._operations = operations
        self._bus = situation.bus
        self._publish = publish
        self._clock = clock
        self._since: dict[SiteDifference, float] = {}
        self._told: dict[str, Overtaken] = {}

    async def watch(self) -> None:
        """Look for differences regularly, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.reconcile_every_s)
            await self.look()

    async def look(self) -> None:
        """Note the differences, and correct those that have lasted long enough."""
        statuses = [self._sites.status(s) for s in self._sites.names if self._sites.state(s) is SiteState.UP]
        jobs, locks = await self._registry.jobs(), await self._registry.locks()
        found = {d for d in differences(jobs, statuses) if d.job not in locks}
        present = self._clock()
        self._since = {d: self._since.get(d, present) for d in found}
        due = [d for d, since in self._since.items() if self._lasts(d, since, present)]
        await asyncio.gather(*(self._correct(d) for d in due))

    def _lasts(self, difference: SiteDifference, since: float, present: float) -> bool:
        missing = difference.what == "missing"
        patience_s = self._settings.missing_after_s if missing else WRONG_FOR_S
        return present - since >= patience_s and self._sites.heard_at(difference.site) > since

    async def _correct(self, difference: SiteDifference) -> None:
        guard = self._operations.guard(difference.job)
        if guard.locked():
            return
        if difference.what == "adjusted":
            return await self._adopt(difference)
        # While the guard is held no operation on the job begins, so the registry does not change.
        async with guard:
            jobs, locks = await self._registry.jobs(), await self._registry.locks()
            statuses = [self._sites.status(difference.site)]
            if difference.job in locks or difference not in differences(jobs, statuses):
                return
            entry, former = jobs.get(difference.job), await self._registry.former(difference.job)
            behind = overtaken(difference.job, entry, former, self._sites.heard())
            if behind is not None:
                return await self._tell(behind)
            if entry is None and former is None:
                return  # A heartbeat that came meanwhile has it no more.
            self._told.pop(difference.job, None)
            log.info("correcting: job %s is %s at %s", difference.job, difference.what, difference.site)
            await self._carry_out(corrections(difference, entry, former))
        self._since.pop(difference, None)

    async def _adopt(self, difference: SiteDifference) -> None:
        """Let the registry take over what the site has adjusted. If that fails, the next look tries again."""
        entry = (await self._situation.registry.jobs()).get(difference.job)
        if entry is None:
            return
        command = UpdateJob(spec=entry.spec, wait=False)
        try:
            log.info("adopting what %s has adjusted of job %s", difference.site, difference.job)
            await self._operations.accept(
                command, difference.job, lambda: plan_adoption(command, self._situation), wait=False
            )
        except Nothing:
            self._since.pop(difference, None)
        except TowpathError as error:
            log.warning("job %s is not adopted yet: %s", difference.job, error)

    async def _carry_out(self, commands: list[SiteCommand[Any]]) -> None:
        """Send the commands in order, up to the first that fails. They are sent again with the next look.

        If the output refuses the registry's epoch, the registry is behind: then nothing must follow.
        """
        for command in commands:
            try:
                await self._bus.request(command, deadline_s=TELL_S)
            except TowpathError as error:
                behind = " (the registry is older than the output)" * (error.detail.code is ErrorCode.FENCED)
                log.warning("%s to %s: %s%s", command.verb(), command.site, error, behind)
                return

    async def _tell(self, behind: Overtaken) -> None:
        """Tell once of each later epoch."""
        if self._told.get(behind.job) != behind:
            self._told[behind.job] = behind
            log.error("job %s is left alone: %s", behind.job, behind.refusal())
            await self._publish(behind.event())


def corrections(
    difference: SiteDifference, entry: JobEntry | None, former: FormerJob | None
) -> list[SiteCommand[Any]]:
    """Return the commands that correct a difference, in order. `former` are the remains of a removed job."""
    operation, site, job = f"{RECONCILIATION}{new_identifier()}", difference.site, difference.job
    if entry is None:
        assert former is not None, "a job that the registry never heard of is not touched"
        return [StopJob(site=site, operation=operation, job=job, epoch=former.epoch, forget=True)]
    if difference.what == "elsewhere":
        # Not StopJob(forget): should the job come back here, its checkpoint spares most of the transfer.
        epoch = max(entry.epoch, entry.used_epoch)
        return [ResetRole(site=site, operation=operation, job=job, keep_job=False, epoch=epoch)]
    output = entry.output
    return [
        SetEpoch(
            site=output.site,
            operation=operation,
            job=job,
            epoch=entry.epoch,
            owners={entry.epoch: entry.site},
            output=output,
            resumes=entry.resumes,
        ),
        StartJob(site=site, operation=operation, assignment=entry.assignment()),
    ]
