"""Compute the epochs that an operation uses up, from its table and the steps that have begun."""

from __future__ import annotations

from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import SetEpoch, Settlement
from towpath.protocols.record import OperationRecord, RegistryChange
from towpath.protocols.table import table_of


def undo_epoch(record: OperationRecord) -> int:
    """Return the epoch of the old owner after a rollback: above every epoch that was ever set."""
    table = table_of(record)
    if not any(step.changes_hands for step in table.steps if step.name in record.begun):
        return record.old_epoch
    # A rollback publishes results from a shadow under the epoch in between.
    return record.new_epoch + (2 if table.interim_epoch else 1)


def highest_epoch(record: OperationRecord) -> int:
    """Return the highest epoch that the operation has told anyone."""
    return max(record.new_epoch, undo_epoch(record))


def owners(record: OperationRecord, *epochs: int) -> dict[int, str]:
    """Return the site that publishes under each of these epochs.

    The new epoch is the new owner's. Every other is the old owner's: the one it had, and the one under which
    it comes back. A job that is being deployed has one owner only.
    """
    old, new = record.before or record.entry_after, record.after or record.entry_before
    return {epoch: (new if epoch == record.new_epoch else old).site for epoch in epochs}


def accept(
    record: OperationRecord,
    output: ResolvedOutput,
    epoch: int,
    *,
    settlement: Settlement | None = None,
    resumes: int | None = None,
) -> SetEpoch:
    """Return the command that lets an output accept an epoch from its owner, and no other."""
    return SetEpoch(
        site=output.site,
        operation=record.id,
        job=record.job,
        epoch=epoch,
        owners=owners(record, epoch),
        output=output,
        settlement=settlement,
        resumes=resumes,
    )


def is_source_disturbed(record: OperationRecord) -> bool:
    """Tell if the source may stand still, so that a rollback must start it."""
    return any(step.disturbs for step in table_of(record).steps if step.name in record.begun)


def restored(record: OperationRecord) -> RegistryChange:
    """Return the change of a rollback: the old owner, at an epoch above every epoch that was ever set.

    The epochs that the target was told are used up, even if the output never accepted them: the target may
    still run under one, and the output must never accept it later.
    """
    before, back = record.entry_before, undo_epoch(record)
    entry = before.model_copy(update={"used_epoch": max(before.used_epoch, record.new_epoch, back)})
    if back != record.old_epoch:
        entry = entry.at_epoch(back).model_copy(update={"resumes": record.old_epoch})
    return RegistryChange(job=record.job, entry=entry)
