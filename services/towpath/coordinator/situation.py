"""The state that decisions are based on, and the checks and records that all of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.bus import Bus
from towpath.contracts.commands import OperationKind
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import Version
from towpath.contracts.message import Command, new_identifier, now
from towpath.coordinator.artefacts import Artefacts
from towpath.coordinator.overtaken import Overtaken, overtaken
from towpath.coordinator.registry.jobs import Registry, busy
from towpath.coordinator.sites import Sites
from towpath.protocols.record import JobEntry, OperationRecord


@dataclass(frozen=True)
class Situation:
    """The state that a decision is based on."""

    registry: Registry
    sites: Sites
    bus: Bus
    artefacts: Artefacts


@dataclass(frozen=True)
class Upcoming:
    """Changes that are about to come: a pipeline's jobs are decided on one by one, and belong together."""

    pipeline: str | None = None
    coming: Mapping[str, JobEntry] = field(default_factory=dict)
    """Jobs as they will be, new ones too."""
    leaving: frozenset[str] = frozenset()
    """Jobs that will be removed."""
    artefacts: Mapping[str, str] = field(default_factory=dict)
    """Job → digest of the user code of the decision. The hub keeps it."""

    def of(self, jobs: Mapping[str, JobEntry]) -> dict[str, JobEntry]:
        """Return all jobs as they will be."""
        staying = {name: entry for name, entry in jobs.items() if name not in self.leaving}
        return {**staying, **self.coming}


def entry_of(jobs: Mapping[str, JobEntry], job: str, field: str) -> JobEntry:
    """Return the job's entry. Raises `TowpathError` (unknown job) with `field` when there is none."""
    if job not in jobs:
        raise TowpathError.unknown("job", job, sorted(jobs), field=field)
    return jobs[job]


async def check_free(job: str, situation: Situation) -> None:
    """Raise `TowpathError` if the job cannot be changed now.

    `busy`: an operation on it is under way, or its site has adjusted it and the registry does not know yet.
    `not_allowed`: a site has it under a later epoch than the registry knows.
    """
    holder = (await situation.registry.locks()).get(job)
    if holder is not None:
        raise busy(job, holder)
    if await _overtaken(job, situation) is not None:
        # Heartbeats from before the last operation's end are no evidence.
        await situation.sites.next_heartbeats()
        found = await _overtaken(job, situation)
        if found is not None:
            raise found.refusal()
    entry = (await situation.registry.jobs()).get(job)
    status = None if entry is None else situation.sites.job(entry.site, job)
    if entry is not None and status is not None and is_newer(status.version, entry):
        raise TowpathError(
            ErrorCode.BUSY,
            f"site {entry.site} has adjusted this job itself, and the registry is adopting that",
            field="job",
            value=job,
            allowed="in a few seconds",
        )


def is_newer(version: Version, entry: JobEntry) -> bool:
    """Return True if a site has a newer version of the job under the registry's epoch."""
    return version.epoch == entry.epoch and version > entry.version and version.is_credible


async def _overtaken(job: str, situation: Situation) -> Overtaken | None:
    entry = (await situation.registry.jobs()).get(job)
    return overtaken(job, entry, await situation.registry.former(job), situation.sites.heard())


def record_of(
    command: Command[Any],
    kind: OperationKind,
    job: str,
    *,
    before: JobEntry | None = None,
    after: JobEntry | None = None,
    old_epoch: int | None = None,
    **fields: Any,
) -> OperationRecord:
    """Return the record of a decision: a fresh operation, begun now."""
    epoch = before.epoch if before else old_epoch or 0
    return OperationRecord(
        id=new_identifier(),
        command=command.id,
        asked_by=command.asked_by,
        kind=kind,
        job=job,
        before=before,
        after=after,
        old_epoch=epoch,
        new_epoch=after.epoch if after else epoch + 1,
        begun_at=now(),
        **fields,
    )
