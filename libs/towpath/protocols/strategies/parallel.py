"""Migrate processing-time windows: both sites run until their results agree (thesis ch. 6, Fig. 6.3).

No state is carried, because such a window keeps none between its results. But the two operators cut the
same input at different places. A monitor forwards the source's results and decides from which serial
number on the target's results can follow them (`towpath.synchrony`). From that decision on the migration
only goes forward, because the amended results belong to neither operator.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.contracts.commands import ConsistencyCheck, MigrationFigures
from towpath.contracts.job import JobSpec
from towpath.contracts.migration import OpenShadow, ResumeJob, SetEpoch, Settlement
from towpath.contracts.monitor import AwaitConsistency, StartMonitor, Watch
from towpath.contracts.site_commands import ReportProgress, StopJob
from towpath.operators.kind import kind_of
from towpath.protocols import shared_steps
from towpath.protocols.epochs import accept, highest_epoch, owners, restored, undo_epoch
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    NO_MONITOR,
    SOURCE_RUNS,
    TARGET_STANDS,
    assign_source,
    assign_target,
    both_runs,
    record_owner,
    reset_source,
    reset_target,
    stop_monitor,
    total_s,
)
from towpath.protocols.step import Actor, Compensation, asks
from towpath.protocols.strategies.handover import settle
from towpath.protocols.table import Strategy, register

AGREEMENT_S = 3600.0
"""Upper bound for waiting for agreement: with long windows and a small S it may take many of them."""

WINDOWS_TO_AGREE = 30
"""Windows that may pass without agreement before the migration is rolled back."""

LEAST_AGREEMENT_S = 60.0

_WINDOWS_ARE_WHERE_IT_RUNS = (
    "its windows lie where its operator runs, so source and target run at once until their results agree; "
    "no state is carried"
)


def undivert(record: OperationRecord) -> SetEpoch:
    """The output takes over the source's diverted results; then the source owns it again."""
    back = undo_epoch(record)
    settlement = Settlement(epoch=record.old_epoch, interim=back - 1)
    return accept(record, record.entry_before.output, back, settlement=settlement)


UNDIVERTED = Compensation(Actor.OUTPUT, undivert, must=True)

# The rollback starts the source after `divert` is undone: by then the output takes its results again.
launch_retrieve = replace(shared_steps.launch_retrieve, compensation=SOURCE_RUNS)


@asks(Actor.OUTPUT, undone_by=UNDIVERTED, disturbs=True, changes_hands=True)
def divert(record: OperationRecord) -> OpenShadow:
    """Results of both go to the shadow; the monitor owns the output meanwhile."""
    output, epochs = record.entry_after.output, [record.old_epoch, record.new_epoch]
    return OpenShadow(
        site=output.site,
        operation=record.id,
        job=record.job,
        epochs=epochs,
        owners=owners(record, *epochs),
        interim=record.interim_epoch,
        output=output,
    )


@asks(Actor.MONITOR, undone_by=NO_MONITOR)
def start_monitor(record: OperationRecord) -> StartMonitor:
    """The source's results flow again, through the monitor."""
    return StartMonitor(operation=record.id, watch=watch(record))


@asks(Actor.SOURCE)
def note_progress(record: OperationRecord) -> ReportProgress:
    """The source says how far it is: the target begins there."""
    return ReportProgress(site=record.entry_before.site, operation=record.id, job=record.job)


@asks(Actor.TARGET, 60.0, undone_by=TARGET_STANDS)
def launch_divert(record: OperationRecord) -> ResumeJob:
    """The target runs beside the source."""
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        after_serials=note_progress.fact_in(record).serials,
    )


@asks(Actor.MONITOR, AGREEMENT_S, point_of_no_return=True)
def await_consistency(record: OperationRecord) -> AwaitConsistency:
    """The target's results can follow the source's."""
    within_s = max(LEAST_AGREEMENT_S, WINDOWS_TO_AGREE * record.window_s)
    return AwaitConsistency(
        operation=record.id, watch=watch(record), within_s=min(within_s, AGREEMENT_S - 10.0)
    )


@asks(Actor.SOURCE, 20.0, 5.0)
def terminate(record: OperationRecord) -> StopJob:
    """The source is not needed any more."""
    site = record.entry_before.site
    return StopJob(site=site, operation=record.id, job=record.job, epoch=highest_epoch(record))


@asks(Actor.OUTPUT, 30.0, 10.0, endless=True)
def remove_divert(record: OperationRecord) -> SetEpoch:
    """From now on the target's results are the job's: first the amended ones, then those that waited."""
    return settle(record, await_consistency.fact_in(record))


def watch(record: OperationRecord) -> Watch:
    """Let the monitor forward the source's results until the target's can follow."""
    return both_runs(
        record,
        divert.fact_in(record),
        check=record.check,
        trigger_s=record.window_s,
        interim=record.interim_epoch,
        factor=record.factor,
    )


def figures(record: OperationRecord) -> MigrationFigures:
    """Return the costs of a completed move. Nothing stood still, and no state was carried."""
    found = await_consistency.fact_in(record)
    return MigrationFigures(
        total_s=total_s(record),
        downtime_s=0.0,
        state_bytes=0,
        compared=found.compared,
        offset=found.offset,
    )


def obstacle(spec: JobSpec) -> str | None:
    """Refuse everything but processing-time windows over one input."""
    if not kind_of(spec.operator).covers_batches:
        return f"only processing-time windows keep no state between results, and {spec.operator.kind} may"
    if len(spec.inputs) > 1:
        return "serial numbers of several inputs cannot be compared"
    return None


def suits(spec: JobSpec) -> str | None:
    """Take every job that the strategy can move."""
    return None if obstacle(spec) else _WINDOWS_ARE_WHERE_IT_RUNS


PARALLEL = register(
    Strategy(
        name="parallel",
        summary="both sites run until their results agree",
        obstacle=obstacle,
        suits=suits,
        auto_rank=20,
        steps=(
            assign_source,
            assign_target,
            launch_retrieve,
            divert,
            start_monitor,
            note_progress,
            launch_divert,
            await_consistency,
            terminate,
            remove_divert,
            stop_monitor,
            record_owner,
            reset_source,
            reset_target,
        ),
        rolled_back=restored,
        interim_epoch=True,
        begins_after=lambda record: note_progress.fact_in(record).serials,
        checks=(ConsistencyCheck.SERIALS, ConsistencyCheck.RESULTS),
        plain_s=3.0,
        figures=figures,
    )
)
