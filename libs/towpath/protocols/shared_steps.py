"""Steps and compensations that several tables share."""

from __future__ import annotations

from datetime import datetime

from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.job import DesiredState
from towpath.contracts.migration import (
    AssignRole,
    LaunchRetrieve,
    ObserveProgress,
    ResetRole,
    ResumeJob,
    Role,
    SetEpoch,
    ShadowOpened,
)
from towpath.contracts.monitor import StopMonitor, Watch
from towpath.contracts.site_commands import StopJob
from towpath.protocols.epochs import accept, highest_epoch, is_source_disturbed, undo_epoch
from towpath.protocols.record import OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, asks, writes
from towpath.protocols.table import strategy_of

TRANSFER_S = 600.0
"""Upper bound for carrying state: 10 GB over 20 MB/s. A dead party is noticed sooner: the source gives
up by itself when no one takes its chunks."""

SHIP_S = 3_600.0
"""Upper bound for carrying state while the job runs: the sender pauses often, to leave room for the job."""

FETCH_S = 600.0
"""Upper bound for fetching an engine's image: 1.2 GB over 2 MB/s. The site answers `busy` meanwhile."""


# Compensations


def resume_source(record: OperationRecord) -> ResumeJob:
    """The source goes on with the checkpoint it kept."""
    site = record.entry_before.site
    return ResumeJob(site=site, operation=record.id, job=record.job, epoch=undo_epoch(record))


def unset_epoch(record: OperationRecord) -> SetEpoch:
    """The old owner comes back under a still higher epoch, because epochs only grow.

    It may compute results again that the target has published meanwhile. `resumes` names the epoch under
    which it published last.
    """
    return accept(record, record.entry_before.output, undo_epoch(record), resumes=record.old_epoch)


def stop_target(record: OperationRecord) -> StopJob:
    """The target stops. Best effort: the epoch fences it anyway."""
    site = record.entry_after.site
    return StopJob(site=site, operation=record.id, job=record.job, epoch=highest_epoch(record))


def keep_source(record: OperationRecord) -> ResetRole:
    """The source stays the owner."""
    return _reset(record, record.entry_before.site, keep_job=True)


def drop_target(record: OperationRecord) -> ResetRole:
    """The target forgets the job."""
    return _reset(record, record.entry_after.site, keep_job=False)


def end_monitor(record: OperationRecord) -> StopMonitor:
    """Nothing is left to compare."""
    return StopMonitor(operation=record.id)


def _reset(record: OperationRecord, site: str, *, keep_job: bool) -> ResetRole:
    return ResetRole(
        site=site, operation=record.id, job=record.job, keep_job=keep_job, epoch=highest_epoch(record)
    )


AS_OWNER = Compensation(Actor.SOURCE, keep_source)
AS_STRANGER = Compensation(Actor.TARGET, drop_target)
SOURCE_RUNS = Compensation(
    Actor.SOURCE,
    resume_source,
    must=True,
    owed=is_source_disturbed,
    owed_if="if a step that disturbs the source has begun",
)
SOURCE_MAY_PUBLISH = Compensation(Actor.OUTPUT, unset_epoch, must=True)
TARGET_STANDS = Compensation(Actor.TARGET, stop_target)
NO_MONITOR = Compensation(Actor.MONITOR, end_monitor)


# Steps


@asks(Actor.SOURCE, undone_by=AS_OWNER)
def assign_source(record: OperationRecord) -> AssignRole:
    """The owner becomes the source."""
    before = record.entry_before
    return AssignRole(
        site=before.site,
        operation=record.id,
        job=record.job,
        role=Role.SOURCE,
        adjustments=before.adjustments,
    )


@asks(Actor.TARGET, 30.0, undone_by=AS_STRANGER, busy_s=FETCH_S)
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


@asks(Actor.TARGET, 90.0)
def launch_retrieve(record: OperationRecord) -> LaunchRetrieve:
    """The target prepares the job under its epoch and consumes nothing."""
    after = record.entry_after
    held = after.assignment(desired=DesiredState.HELD, migration=record.id)
    return LaunchRetrieve(
        site=after.site, operation=record.id, assignment=held, after_serials=record.progress
    )


@asks(Actor.OUTPUT, undone_by=SOURCE_MAY_PUBLISH, disturbs=True, changes_hands=True)
def set_epoch(record: OperationRecord) -> SetEpoch:
    """From now on the output takes the new owner's results, and no one else's."""
    return accept(record, record.entry_after.output, record.new_epoch)


@asks(Actor.MONITOR, 10.0, optional=True)
def stop_monitor(record: OperationRecord) -> StopMonitor:
    """Nothing is left to compare."""
    return end_monitor(record)


@writes()
def record_owner(record: OperationRecord) -> RegistryChange:
    """The registry names the target as owner."""
    begins_after = strategy_of(record).begins_after
    after = record.entry_after
    moved = after if begins_after is None else after.after_serials(begins_after(record))
    return RegistryChange(job=record.job, entry=moved)


@asks(Actor.SOURCE, 20.0)
def reset_source(record: OperationRecord) -> ResetRole:
    """The source forgets the job. Its checkpoint stays as a cache that makes coming back cheap."""
    return _reset(record, record.entry_before.site, keep_job=False)


@asks(Actor.TARGET, 20.0)
def reset_target(record: OperationRecord) -> ResetRole:
    """The target becomes an ordinary owner."""
    return _reset(record, record.entry_after.site, keep_job=True)


@asks(Actor.TARGET, attempt_s=15.0, optional=True)
def observe(record: OperationRecord) -> ObserveProgress:
    """The target says when it has processed its first events, for the downtime."""
    return ObserveProgress(site=record.entry_after.site, operation=record.id, job=record.job)


# Parts of steps and strategies


def both_runs(
    record: OperationRecord, opened: ShadowOpened, *, check: ConsistencyCheck, trigger_s: float, **more: int
) -> Watch:
    """Return the two runs that the monitor compares."""
    before, after = record.entry_before, record.entry_after
    return Watch(
        job=record.job,
        source=before.site,
        target=after.site,
        source_epoch=record.old_epoch,
        target_epoch=record.new_epoch,
        inputs=after.inputs,
        output=after.output,
        output_serial=opened.output_serial,
        check=check,
        trigger_s=trigger_s,
        **more,
    )


def total_s(record: OperationRecord) -> float:
    """Return the seconds from the acceptance of an operation to its end."""
    assert record.ended_at is not None, "it has not ended"
    return (record.ended_at - record.begun_at).total_seconds()


def downtime_s(record: OperationRecord, last_at_source: datetime | None) -> float | None:
    """Return the seconds between the source's last micro-batch with events and the target's first.

    The trigger interval does not count. None if there were no events meanwhile.
    """
    seen = observe.find(record)
    if last_at_source is None or seen is None or seen.committed_at is None:
        return None
    gap = (seen.committed_at - last_at_source).total_seconds()
    return max(0.0, gap - record.entry_after.spec.trigger_s)
