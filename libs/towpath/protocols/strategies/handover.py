"""Migrate without a pause, for deterministic operators: carry the state while the job runs.

The target starts from a checkpoint of the running job and catches up in the shadow: its results wait in
a stream of their own. Once it has caught up, one change of epoch makes its results the job's. The output
takes over those that the source had not published, and drops the others by their equal message ids.
`contracts/PROTOCOL.md` says why each step keeps the invariants.
"""

from __future__ import annotations

from typing import Any

from towpath.contracts.commands import ConsistencyCheck, MigrationFigures
from towpath.contracts.job import JobSpec
from towpath.contracts.migration import (
    DropShadow,
    OpenShadow,
    ResumeJob,
    SetEpoch,
    Settlement,
    ShipCheckpoint,
)
from towpath.contracts.monitor import AwaitConsistency, Consistent, StartMonitor, Watch
from towpath.operators.kind import kind_of
from towpath.protocols.epochs import accept, owners, restored
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    NO_MONITOR,
    SHIP_S,
    SOURCE_MAY_PUBLISH,
    SOURCE_RUNS,
    TARGET_STANDS,
    assign_source,
    assign_target,
    both_runs,
    launch_retrieve,
    record_owner,
    reset_source,
    reset_target,
    stop_monitor,
    total_s,
)
from towpath.protocols.step import Actor, Compensation, Step, asks
from towpath.protocols.table import Strategy, register

CATCH_UP_S = 80.0
"""Shortest time that the target has to catch up."""

CATCH_UP_TRIGGERS = 6
"""Trigger intervals that the target has at least. It must reach the point where the source was one interval
ago, which takes until its next micro-batch; then it has two more to be level in results."""

ANSWER_S = 5.0
"""Time for the monitor to say that the target has not caught up."""

_EVENTS_ALONE = (
    "its results depend on the events alone, so the target catches up while the source runs; no downtime"
)


def drop_shadow(record: OperationRecord) -> DropShadow:
    """Nothing of the target's results is needed: the source has published them, or will."""
    return DropShadow(site=record.entry_after.output.site, operation=record.id, job=record.job)


NO_SHADOW = Compensation(Actor.OUTPUT, drop_shadow)


@asks(Actor.OUTPUT, undone_by=NO_SHADOW)
def open_shadow(record: OperationRecord) -> OpenShadow:
    """The target's results will wait beside the output."""
    output = record.entry_after.output
    return OpenShadow(
        site=output.site,
        operation=record.id,
        job=record.job,
        epochs=[record.new_epoch],
        owners=owners(record, record.new_epoch),
        output=output,
    )


@asks(Actor.SOURCE, SHIP_S)
def ship_checkpoint(record: OperationRecord) -> ShipCheckpoint:
    """The source sends its newest checkpoint, and what changes meanwhile, and runs on."""
    return ShipCheckpoint(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        have=launch_retrieve.fact_in(record).have,
        transfer=launch_retrieve.fact_in(record).transfer,
    )


@asks(Actor.TARGET, 60.0, undone_by=TARGET_STANDS)
def launch_shadow(record: OperationRecord) -> ResumeJob:
    """The target runs from the checkpoint that arrived, under an epoch the output does not accept yet."""
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        digest=ship_checkpoint.fact_in(record).digest,
    )


@asks(Actor.MONITOR, undone_by=NO_MONITOR)
def start_monitor(record: OperationRecord) -> StartMonitor:
    """The monitor begins to compare."""
    return StartMonitor(operation=record.id, watch=watch(record))


def catch_up_s(record: OperationRecord) -> float:
    """Return the seconds that the target has to catch up."""
    return max(CATCH_UP_S, CATCH_UP_TRIGGERS * record.entry_after.spec.trigger_s)


def consistency_deadline_s(record: OperationRecord) -> float:
    """Return a deadline longer than the monitor waits, so that its reason arrives."""
    return catch_up_s(record) + ANSWER_S


@asks(Actor.MONITOR, consistency_deadline_s, undone_by=SOURCE_RUNS)
def await_consistency(record: OperationRecord) -> AwaitConsistency:
    """The target has caught up, and no result differs."""
    return AwaitConsistency(operation=record.id, watch=watch(record), within_s=catch_up_s(record))


@asks(
    Actor.OUTPUT,
    30.0,
    10.0,
    undone_by=SOURCE_MAY_PUBLISH,
    point_of_no_return=True,
    disturbs=True,
    changes_hands=True,
)
def set_epoch(record: OperationRecord) -> SetEpoch:
    """From now on the target's results are the job's: first those that waited in the shadow."""
    return settle(record, await_consistency.fact_in(record))


def settle(record: OperationRecord, found: Consistent) -> SetEpoch:
    """Let the output take over the target's results, and then accept the target alone."""
    settlement = Settlement(
        epoch=record.new_epoch,
        after_position=found.position,
        amended=found.amended,
        interim=record.interim_epoch,
    )
    return accept(record, record.entry_after.output, record.new_epoch, settlement=settlement)


def watch(record: OperationRecord) -> Watch:
    """Let the monitor compare the values of results with equal identity."""
    opened = open_shadow.fact_in(record)
    trigger_s = record.entry_after.spec.trigger_s
    return both_runs(record, opened, check=ConsistencyCheck.IDENTITY, trigger_s=trigger_s)


def figures(record: OperationRecord) -> MigrationFigures:
    """Return the costs of a completed move. Nothing stood still."""
    shipped, found = ship_checkpoint.fact_in(record), await_consistency.fact_in(record)
    return MigrationFigures(
        total_s=total_s(record),
        downtime_s=0.0,
        state_bytes=shipped.state_bytes,
        round_bytes=shipped.round_bytes,
        compared=found.compared,
        offset=found.offset,
    )


def obstacle(spec: JobSpec) -> str | None:
    """Refuse results that cover a micro-batch: those of two runs are never equal."""
    kind = kind_of(spec.operator)
    if not kind.covers_batches:
        return None
    return f"{kind.nondeterminism(spec.operator)}, so their results are never equal"


UNTIL_LEVEL: tuple[Step[Any], ...] = (
    assign_source,
    assign_target,
    launch_retrieve,
    open_shadow,
    ship_checkpoint,
    launch_shadow,
    start_monitor,
    await_consistency,
)
"""Both run, and the target's results wait in the shadow until it is level with the source."""

HANDOVER = register(
    Strategy(
        name="handover",
        summary="carry the state while the job runs; change owner once the target has caught up",
        obstacle=obstacle,
        suits=lambda spec: _EVENTS_ALONE,
        auto_rank=30,
        steps=(
            *UNTIL_LEVEL,
            set_epoch,
            stop_monitor,
            record_owner,
            reset_source,
            reset_target,
        ),
        rolled_back=restored,
        interim_epoch=True,
        carries_state=True,
        plain_s=5.0,
        figures=figures,
    )
)
