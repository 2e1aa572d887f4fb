"""Migration with state: pause, carry, resume (thesis ch. 5, Algorithms 5.1 and 5.2, Fig. 5.4).

`contracts/PROTOCOL.md` says why each step keeps the invariants. Steps after `resume` only go
forward: from then on the target has the newest state.
"""

from __future__ import annotations

from datetime import datetime

from towpath.contracts.commands import StrategyName
from towpath.contracts.job import DesiredState
from towpath.contracts.migration import (
    AssignRole,
    LaunchRetrieve,
    ObserveProgress,
    PauseTransfer,
    ResetRole,
    ResumeJob,
    Role,
    SetEpoch,
    StopJob,
)
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored

TRANSFER_S = 600.0
"""Upper bound of pause-transfer: 10 GB of state over 20 MB/s. A dead party is noticed sooner: the
source gives up by itself when nobody takes its chunks."""


def assign_source(record: OperationRecord) -> AssignRole:
    """The owner becomes the source."""
    site = record.entry_before.site
    return AssignRole(site=site, operation=record.id, job=record.job, role=Role.SOURCE)


def assign_target(record: OperationRecord) -> AssignRole:
    """The other site becomes the target."""
    site = record.entry_after.site
    return AssignRole(site=site, operation=record.id, job=record.job, role=Role.TARGET)


def launch_retrieve(record: OperationRecord) -> LaunchRetrieve:
    """The target prepares the job under the next epoch and consumes nothing."""
    after = record.entry_after
    held = after.assignment(desired=DesiredState.HELD, migration=record.id)
    return LaunchRetrieve(
        site=after.site, operation=record.id, assignment=held, after_serials=record.progress
    )


def pause_transfer(record: OperationRecord) -> PauseTransfer:
    """The source stops, and sends what the target does not have."""
    return PauseTransfer(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        have=record.facts["launch-retrieve"].get("have", {}),
        transfer_state=record.strategy is StrategyName.GENERAL,
    )


def set_epoch(record: OperationRecord) -> SetEpoch:
    """From now on the output takes the new owner's results, and nobody else's."""
    output = record.entry_after.output
    return SetEpoch(
        site=output.site, operation=record.id, job=record.job, epoch=record.new_epoch, output=output
    )


def unset_epoch(record: OperationRecord) -> SetEpoch:
    """Epochs only grow: the old owner comes back under a still higher one."""
    output = record.entry_before.output
    return SetEpoch(
        site=output.site, operation=record.id, job=record.job, epoch=record.new_epoch + 1, output=output
    )


def resume(record: OperationRecord) -> ResumeJob:
    """The target goes on with the serial after the last one the source processed."""
    paused = record.facts["pause-transfer"]
    carried = record.strategy is StrategyName.GENERAL
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        digest=paused.get("digest", "") if carried else None,
        after_serials=None if carried else paused["serials"],
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
    """The job as the target owns it. Without state it has a start of its own in every input."""
    if record.strategy is StrategyName.GENERAL:
        return record.entry_after
    return record.entry_after.after_serials(record.facts["pause-transfer"]["serials"])


def record_owner(record: OperationRecord) -> RegistryChange:
    """The registry names the target as owner."""
    return RegistryChange(job=record.job, entry=moved(record))


def reset_source(record: OperationRecord) -> ResetRole:
    """The source forgets the job. Its checkpoint stays as a cache that makes coming back cheap."""
    site = record.entry_before.site
    return ResetRole(site=site, operation=record.id, job=record.job, keep_job=False)


def keep_source(record: OperationRecord) -> ResetRole:
    """The source stays the owner."""
    site = record.entry_before.site
    return ResetRole(site=site, operation=record.id, job=record.job, keep_job=True)


def reset_target(record: OperationRecord) -> ResetRole:
    """The target becomes an ordinary owner."""
    site = record.entry_after.site
    return ResetRole(site=site, operation=record.id, job=record.job, keep_job=True)


def drop_target(record: OperationRecord) -> ResetRole:
    """The target forgets the job."""
    site = record.entry_after.site
    return ResetRole(site=site, operation=record.id, job=record.job, keep_job=False)


def observe(record: OperationRecord) -> ObserveProgress:
    """When the target has processed its first events, for the downtime."""
    return ObserveProgress(site=record.entry_after.site, operation=record.id, job=record.job)


SOURCE, TARGET, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.TARGET, Actor.OUTPUT, Actor.COORDINATOR
AS_OWNER = Compensation(SOURCE, keep_source)
AS_STRANGER = Compensation(TARGET, drop_target)
SOURCE_RUNS = Compensation(SOURCE, resume_source, must=True)
SOURCE_MAY_PUBLISH = Compensation(OUTPUT, unset_epoch, must=True)
TARGET_STANDS = Compensation(TARGET, stop_target)

# fmt: off
STEPS: tuple[Step, ...] = (
    #    name               actor        command          deadline, attempt       undone by
    Step("assign-source",   SOURCE,      assign_source,   15.0, 3.0,              AS_OWNER),
    Step("assign-target",   TARGET,      assign_target,   30.0, 3.0,              AS_STRANGER),
    Step("launch-retrieve", TARGET,      launch_retrieve, 90.0, 20.0),
    Step("pause-transfer",  SOURCE,      pause_transfer,  TRANSFER_S, 20.0,       SOURCE_RUNS),
    Step("set-epoch",       OUTPUT,      set_epoch,       15.0, 3.0,              SOURCE_MAY_PUBLISH),
    Step("resume",          TARGET,      resume,          60.0, 15.0,             TARGET_STANDS,
         point_of_no_return=True),
    Step("record-owner",    COORDINATOR, record_owner),
    Step("reset-source",    SOURCE,      reset_source,    20.0, 3.0),
    Step("reset-target",    TARGET,      reset_target,    20.0, 3.0),
    Step("observe",         TARGET,      observe,         15.0, 15.0,             optional=True),
)
# fmt: on

GENERAL = Strategy("general", STEPS, restored)


def first_processed_at(record: OperationRecord) -> datetime | None:
    """When the target committed its first micro-batch with events; None if none was seen."""
    at = record.facts.get("observe", {}).get("committed_at")
    return datetime.fromisoformat(at) if at else None
