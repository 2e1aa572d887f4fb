"""Migration of processing-time windows: both sites run until their results agree (thesis ch. 6, Fig. 6.3).

No state is carried, because such a window keeps none between its results; but the two operators cut the
same input at different places. A monitor forwards the source's results and decides from which serial
number on the target's can follow them (`towpath.synchrony`). From that decision on the migration only
goes forward: the results that were amended belong to no operator alone.
"""

from __future__ import annotations

from towpath.contracts.migration import OpenShadow, ReportProgress, ResumeJob, SetEpoch, Settlement, StopJob
from towpath.contracts.monitor import AwaitConsistency, StartMonitor, Watch
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    AS_OWNER,
    AS_STRANGER,
    FETCH_S,
    SOURCE_RUNS,
    TARGET_STANDS,
    assign_source,
    assign_target,
    both_runs,
    launch_retrieve,
    record_owner,
    reset_source,
    reset_target,
)
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored
from towpath.protocols.strategies.handover import NO_MONITOR, set_epoch, stop_monitor

AGREEMENT_S = 3600.0
"""Upper bound of waiting for agreement: with long windows and a small S it may take many of them."""

WINDOWS_TO_AGREE = 30
"""So many windows may pass without agreement before the migration is rolled back."""

LEAST_AGREEMENT_S = 60.0


def divert(record: OperationRecord) -> OpenShadow:
    """Results of both go to the shadow; the monitor owns the output meanwhile."""
    output = record.entry_after.output
    return OpenShadow(
        site=output.site,
        operation=record.id,
        job=record.job,
        epochs=[record.old_epoch, record.new_epoch],
        interim=record.interim_epoch,
        output=output,
    )


def undivert(record: OperationRecord) -> SetEpoch:
    """What the source published meanwhile reaches the output; then the source owns it again."""
    output = record.entry_before.output
    return SetEpoch(
        site=output.site,
        operation=record.id,
        job=record.job,
        epoch=record.undo_epoch,
        output=output,
        settlement=Settlement(epoch=record.old_epoch, interim=record.undo_epoch - 1),
    )


def watch(record: OperationRecord) -> Watch:
    """The monitor forwards the source's results until the target's can follow."""
    return both_runs(
        record,
        record.facts["divert"],
        check=record.check,
        trigger_s=record.window_s,
        interim=record.interim_epoch,
        factor=record.factor,
    )


def start_monitor(record: OperationRecord) -> StartMonitor:
    """The source's results flow again, through the monitor."""
    return StartMonitor(operation=record.id, watch=watch(record))


def note_progress(record: OperationRecord) -> ReportProgress:
    """How far the source is: the target begins there."""
    return ReportProgress(site=record.entry_before.site, operation=record.id, job=record.job)


def launch_divert(record: OperationRecord) -> ResumeJob:
    """The target runs beside the source."""
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        after_serials=record.facts["note-progress"]["serials"],
    )


def await_consistency(record: OperationRecord) -> AwaitConsistency:
    """The target's results can follow the source's."""
    within_s = max(LEAST_AGREEMENT_S, WINDOWS_TO_AGREE * record.window_s)
    return AwaitConsistency(
        operation=record.id, watch=watch(record), within_s=min(within_s, AGREEMENT_S - 10.0)
    )


def terminate(record: OperationRecord) -> StopJob:
    """The source is not needed any more."""
    return StopJob(site=record.entry_before.site, operation=record.id, job=record.job)


SOURCE, TARGET, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.TARGET, Actor.OUTPUT, Actor.COORDINATOR
MONITOR = Actor.MONITOR
UNDIVERTED = Compensation(OUTPUT, undivert, must=True)

# fmt: off
STEPS: tuple[Step, ...] = (
    #    name                 actor        command            deadline, attempt           undone by
    Step("assign-source",     SOURCE,      assign_source,     15.0, 3.0,                  AS_OWNER),
    Step("assign-target",     TARGET,      assign_target,     30.0, 3.0,                  AS_STRANGER,
         busy_s=FETCH_S),
    Step("launch-retrieve",   TARGET,      launch_retrieve,   90.0, 3.0,                  SOURCE_RUNS),
    Step("divert",            OUTPUT,      divert,            15.0, 3.0,                  UNDIVERTED),
    Step("start-monitor",     MONITOR,     start_monitor,     15.0, 3.0,                  NO_MONITOR),
    Step("note-progress",     SOURCE,      note_progress,     15.0, 3.0),
    Step("launch-divert",     TARGET,      launch_divert,     60.0, 3.0,                  TARGET_STANDS),
    Step("await-consistency", MONITOR,     await_consistency, AGREEMENT_S, 3.0,
         point_of_no_return=True),
    Step("terminate",         SOURCE,      terminate,         20.0, 5.0),
    Step("remove-divert",     OUTPUT,      set_epoch,         30.0, 10.0,                 endless=True),
    Step("stop-monitor",      MONITOR,     stop_monitor,      10.0, 3.0,                  optional=True),
    Step("record-owner",      COORDINATOR, record_owner),
    Step("reset-source",      SOURCE,      reset_source,      20.0, 3.0),
    Step("reset-target",      TARGET,      reset_target,      20.0, 3.0),
)
# fmt: on

PARALLEL = Strategy("parallel", STEPS, restored)
