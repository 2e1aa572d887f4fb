"""Plan that a job goes on at its standby, because its site is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from towpath.bus import Bus
from towpath.contracts.commands import OperationKind
from towpath.contracts.data_plane import rejected_stream
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import Capability, SiteState
from towpath.contracts.standby import FailOverJob, ForecastFailover, HoldMirrors
from towpath.coordinator.jobs.topics import readers, resolve_output, with_current_sites
from towpath.coordinator.sites import Sites
from towpath.coordinator.situation import Situation, check_free, entry_of, record_of
from towpath.protocols.operations.failover import keep_standby
from towpath.protocols.record import JobEntry, OperationRecord

log = logging.getLogger(__name__)

ASK_S = 30.0
"""The standby's engine may have to start."""

HOLD_ANSWER_S = 3.0
"""A site that does not answer is not waited for: the job stands still meanwhile."""


async def prepare_failover(command: FailOverJob, situation: Situation) -> OperationRecord:
    """Plan a failover that begins at once. Raises as `plan_failover`.

    If the standby promotes its copy of the output, readers first take nothing more from the lost site. Its
    broker may live, or its link come back, and what it publishes then is not in the promoted copy.
    """
    record = await plan_failover(command, situation)
    sites, output = situation.sites, record.entry_before.output
    streams = [output.stream, rejected_stream(output.stream)]
    holds = [
        HoldMirrors(site=site, operation=record.id, home_site=output.home_site, streams=streams)
        for site in record.readers
        if sites.can(site, Capability.OUTPUT_COPY)
    ]
    asked = (
        situation.bus.request(hold, deadline_s=HOLD_ANSWER_S, attempt_s=HOLD_ANSWER_S / 3) for hold in holds
    )
    for hold, answer in zip(holds, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        if isinstance(answer, BaseException):
            log.warning("%s may read on at %s for a moment: %s", hold.site, output.site, answer)
    return record


async def plan_failover(command: FailOverJob | ForecastFailover, situation: Situation) -> OperationRecord:
    """Plan a failover. Raises `TowpathError` when the job can be moved instead, or has no standby."""
    jobs = await situation.registry.jobs()
    before = entry_of(jobs, command.job, "job")
    await check_free(command.job, situation)
    to = _standby(command, before)
    if not await situation.sites.is_down(before.site):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"site {before.site} answers: `migrate` moves the job without loss",
            field="job",
            value=command.job,
            allowed="a job whose site is down",
        )
    await situation.sites.check_up(to, "to")
    situation.sites.check_can(to, Capability.STANDBY, "to")
    after = with_current_sites(before, jobs).at_epoch(before.next_epoch())
    after = after.model_copy(update={"site": to, "running": True})
    if not await situation.sites.is_down(before.output.site):
        return record_of(command, OperationKind.FAIL_OVER, command.job, before=before, after=after)
    reading = readers(jobs, command.job)
    note = f"its results go on at {to}, under the same topic"
    promoted = is_copied(before, to, situation.sites) and await _has_output(before, to, situation.bus)
    if reading and not promoted:
        note += f"; {', '.join(reading)} read(s) only what {before.output.site} had stored"
    return record_of(
        command,
        OperationKind.FAIL_OVER,
        command.job,
        before=before,
        after=_with_output_at(after, to, promoted=promoted),
        readers=_reading_sites([jobs[name] for name in reading], situation.sites) if promoted else [],
        note=note,
    )


def is_copied(entry: JobEntry, to: str, sites: Sites) -> bool:
    """Tell if a standby copies a job's output: it would be lost with the job's site."""
    return entry.output.site == entry.site != to and sites.can(to, Capability.OUTPUT_COPY)


async def _has_output(entry: JobEntry, to: str, bus: Bus) -> bool:
    """Tell if a standby can promote its copy of a job's output. Raises `TowpathError` if it has no state."""
    asked = keep_standby(entry, to, needed=True, copies_output=True)
    return (await bus.request(asked, deadline_s=ASK_S, attempt_s=ASK_S / 3)).has_output


def _reading_sites(jobs: Sequence[JobEntry], sites: Sites) -> list[str]:
    """Return the sites that mirror the inputs of jobs, and that answer."""
    standbys = {entry.spec.standby.site for entry in jobs if entry.spec.standby}
    found = standbys | {entry.site for entry in jobs}
    return sorted(site for site in found if sites.state(site) is not SiteState.DOWN)


def _standby(command: FailOverJob | ForecastFailover, before: JobEntry) -> str:
    standby = before.spec.standby
    if standby is None or standby.site == before.site:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"{command.job} has no standby: only {before.site} has its state",
            field="job",
            value=command.job,
            allowed="a job with a `standby`; `remove --force` frees the name of any other",
        )
    if command.to not in (None, standby.site):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "only the standby has a copy of the job's state",
            field="to",
            value=command.to,
            allowed=[standby.site],
        )
    return standby.site


def _with_output_at(entry: JobEntry, site: str, *, promoted: bool) -> JobEntry:
    """Return the job with an output of the same topic at another site: its own, promoted there, or a new one.

    The old one keeps its results.
    """
    said = entry.spec.output.model_copy(update={"site": site})
    spec = entry.spec.model_copy(update={"output": said})
    output = entry.output.at(site) if promoted else resolve_output(spec, entry.output)
    closed = [one for one in (*entry.closed, entry.output) if (one.site, one.stream) != (site, output.stream)]
    return entry.model_copy(update={"spec": spec, "output": output, "closed": closed})
