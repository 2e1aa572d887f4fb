"""Migrate with state: pause, carry, resume (thesis ch. 5, Algorithms 5.1 and 5.2, Fig. 5.4).

`contracts/PROTOCOL.md` says why each step keeps the invariants. Steps after `resume` only go
forward: from then on the target has the newest state.
"""

from __future__ import annotations

from towpath.contracts.commands import MigrationFigures
from towpath.contracts.job import JobSpec
from towpath.contracts.migration import PauseTransfer, ResumeJob
from towpath.operators.kind import kind_of
from towpath.protocols.epochs import restored
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    SOURCE_RUNS,
    TARGET_STANDS,
    TRANSFER_S,
    assign_source,
    assign_target,
    downtime_s,
    launch_retrieve,
    observe,
    record_owner,
    reset_source,
    reset_target,
    set_epoch,
    total_s,
)
from towpath.protocols.step import Actor, asks
from towpath.protocols.table import Strategy, register, strategy_of

LONGEST_TRIGGER_S = 20.0
"""Longest trigger interval of a job that `auto` hands over. `general` stops a job for a few seconds, and no
one notices that between two triggers that are further apart."""

_WINDOWS_OF_SEVERAL_INPUTS = (
    "its windows lie where its operator runs, and serial numbers of several inputs cannot be compared"
)
_RESULTS_MAY_DIFFER = "{why}, so only one site runs it at a time"
_RARE_TRIGGERS = (
    "it computes every {trigger_s:g} s only, so a pause fits in between; running at both sites until they "
    "are level would take five such intervals"
)


@asks(Actor.SOURCE, TRANSFER_S, undone_by=SOURCE_RUNS, disturbs=True)
def pause_transfer(record: OperationRecord) -> PauseTransfer:
    """The source stops, and sends what the target does not have."""
    return PauseTransfer(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        have=launch_retrieve.fact_in(record).have,
        transfer=launch_retrieve.fact_in(record).transfer,
        transfer_state=strategy_of(record).carries_state,
    )


@asks(Actor.TARGET, 60.0, undone_by=TARGET_STANDS, point_of_no_return=True)
def resume(record: OperationRecord) -> ResumeJob:
    """The target goes on with the serial after the last one the source processed."""
    paused = pause_transfer.fact_in(record)
    carried = strategy_of(record).carries_state
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        digest=paused.digest if carried else None,
        after_serials=None if carried else paused.serials,
    )


def figures(record: OperationRecord) -> MigrationFigures:
    """The job stands still from the pause until the target has processed something."""
    paused = pause_transfer.fact_in(record)
    return MigrationFigures(
        total_s=total_s(record),
        downtime_s=downtime_s(record, paused.last_processed_at),
        state_bytes=paused.state_bytes,
    )


def suits(spec: JobSpec) -> str | None:
    """Take jobs that two sites must not run at once, and those whose pause no one notices."""
    kind = kind_of(spec.operator)
    if kind.covers_batches:
        return _WINDOWS_OF_SEVERAL_INPUTS if len(spec.inputs) > 1 else None
    why = kind.nondeterminism(spec.operator)
    if why is not None:
        return _RESULTS_MAY_DIFFER.format(why=why)
    if spec.trigger_s > LONGEST_TRIGGER_S:
        return _RARE_TRIGGERS.format(trigger_s=spec.trigger_s)
    return None


GENERAL = register(
    Strategy(
        name="general",
        summary="pause, carry the state, resume",
        obstacle=lambda spec: None,
        suits=suits,
        auto_rank=10,
        steps=(
            assign_source,
            assign_target,
            launch_retrieve,
            pause_transfer,
            set_epoch,
            resume,
            record_owner,
            reset_source,
            reset_target,
            observe,
        ),
        rolled_back=restored,
        carries_state=True,
        plain_s=2.5,
        figures=figures,
    )
)
