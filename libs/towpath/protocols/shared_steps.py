"""What the parties of every migration are told, and how it is undone: the rows that tables share."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from towpath.contracts.commands import ConsistencyCheck, StrategyName
from towpath.contracts.job import DesiredState
from towpath.contracts.migration import (
    AssignRole,
    LaunchRetrieve,
    ObserveProgress,
    ResetRole,
    ResumeJob,
    Role,
    SetEpoch,
    StopJob,
)
from towpath.contracts.monitor import Watch
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation

TRANSFER_S = 600.0
"""Upper bound of carrying state: 10 GB over 20 MB/s. A dead party is noticed sooner: the source gives
up by itself when nobody takes its chunks."""

SHIP_S = 3_600.0
"""The same while the job runs, which waits for nothing: what is carried rests more than it works."""

FETCH_S = 600.0
"""Upper bound of fetching the image of an engine: 1.2 GB over 2 MB/s. Its site says that it is at it."""


def assign_source(record: OperationRecord) -> AssignRole:
    """The owner becomes the source."""
    site = record.entry_before.site
    return AssignRole(site=site, operation=record.id, job=record.job, role=Role.SOURCE)


def assign_target(record: OperationRecord) -> AssignRole:
    """The other site becomes the target."""
    after = record.entry_after
    return AssignRole(
        site=after.site,
        operation=record.id,
        job=record.job,
        role=Role.TARGET,
        container=after.spec.container,
    )


def launch_retrieve(record: OperationRecord) -> LaunchRetrieve:
    """The target prepares the job under the next epoch and consumes nothing."""
    after = record.entry_after
    held = after.assignment(desired=DesiredState.HELD, migration=record.id)
    return LaunchRetrieve(
        site=after.site, operation=record.id, assignment=held, after_serials=record.progress
    )


def set_epoch(record: OperationRecord) -> SetEpoch:
    """From now on the output takes the new owner's results, and nobody else's."""
    output = record.entry_after.output
    return SetEpoch(
        site=output.site, operation=record.id, job=record.job, epoch=record.new_epoch, output=output
    )


def unset_epoch(record: OperationRecord) -> SetEpoch:
    """Epochs only grow: the old owner comes back under a still higher one. What the target may have published
    meanwhile the old owner computes, too: it is told what that is."""
    before = record.entry_before
    return SetEpoch(
        site=before.output.site,
        operation=record.id,
        job=record.job,
        epoch=record.undo_epoch,
        output=before.output,
        resumes=record.old_epoch,
    )


def resume_source(record: OperationRecord) -> ResumeJob:
    """The source goes on with the checkpoint it kept."""
    site = record.entry_before.site
    return ResumeJob(site=site, operation=record.id, job=record.job, epoch=record.undo_epoch)


def stop_target(record: OperationRecord) -> StopJob:
    """Best effort: the target is fenced by the epoch anyway."""
    site = record.entry_after.site
    return StopJob(site=site, operation=record.id, job=record.job)


def moved(record: OperationRecord) -> JobEntry:
    """The job as the target owns it. Without carried state it has a start of its own in every input."""
    match record.strategy:
        case StrategyName.RESTART:
            return record.entry_after.after_serials(record.facts["pause-transfer"]["serials"])
        case StrategyName.PARALLEL:
            return record.entry_after.after_serials(record.facts["note-progress"]["serials"])
        case _:
            return record.entry_after


def record_owner(record: OperationRecord) -> RegistryChange:
    """The registry names the target as owner."""
    return RegistryChange(job=record.job, entry=moved(record))


def both_runs(
    record: OperationRecord, opened: dict[str, Any], *, check: ConsistencyCheck, trigger_s: float, **more: int
) -> Watch:
    """What the monitor compares; `opened` is what the output site said when it opened the shadow."""
    before, after = record.entry_before, record.entry_after
    return Watch(
        job=record.job,
        source=before.site,
        target=after.site,
        source_epoch=record.old_epoch,
        target_epoch=record.new_epoch,
        inputs=after.inputs,
        output=after.output,
        output_serial=opened["output_serial"],
        check=check,
        trigger_s=trigger_s,
        **more,
    )


def reset_source(record: OperationRecord) -> ResetRole:
    """The source forgets the job. Its checkpoint stays as a cache that makes coming back cheap."""
    return _reset(record, record.entry_before.site, keep_job=False)


def keep_source(record: OperationRecord) -> ResetRole:
    """The source stays the owner."""
    return _reset(record, record.entry_before.site, keep_job=True)


def reset_target(record: OperationRecord) -> ResetRole:
    """The target becomes an ordinary owner."""
    return _reset(record, record.entry_after.site, keep_job=True)


def drop_target(record: OperationRecord) -> ResetRole:
    """The target forgets the job."""
    return _reset(record, record.entry_after.site, keep_job=False)


def _reset(record: OperationRecord, site: str, *, keep_job: bool) -> ResetRole:
    return ResetRole(
        site=site, operation=record.id, job=record.job, keep_job=keep_job, epoch=record.highest_epoch
    )


def observe(record: OperationRecord) -> ObserveProgress:
    """When the target has processed its first events, for the downtime."""
    return ObserveProgress(site=record.entry_after.site, operation=record.id, job=record.job)


def first_processed_at(record: OperationRecord) -> datetime | None:
    """When the target committed its first micro-batch with events; None if none was seen."""
    at = record.facts.get("observe", {}).get("committed_at")
    return datetime.fromisoformat(at) if at else None


AS_OWNER = Compensation(Actor.SOURCE, keep_source)
AS_STRANGER = Compensation(Actor.TARGET, drop_target)
SOURCE_RUNS = Compensation(
    Actor.SOURCE, resume_source, must=True, owed=lambda record: record.is_source_disturbed
)
SOURCE_MAY_PUBLISH = Compensation(Actor.OUTPUT, unset_epoch, must=True)
TARGET_STANDS = Compensation(Actor.TARGET, stop_target)
