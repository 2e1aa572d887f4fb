"""Migration without a pause, for deterministic operators: carry the state while the job runs.

The target starts from a checkpoint of the running job and catches up in the shadow: its results wait in
a stream of their own. Once it has caught up, one change of epoch makes its results the job's: those that
the source had not published are taken over from the shadow, equal message ids drop the others.
`contracts/PROTOCOL.md` says why each step keeps the invariants.
"""

from __future__ import annotations

from towpath.contracts.commands import ConsistencyCheck
from towpath.contracts.migration import (
    DropShadow,
    OpenShadow,
    ResumeJob,
    SetEpoch,
    Settlement,
    ShipCheckpoint,
)
from towpath.contracts.monitor import AwaitConsistency, StartMonitor, StopMonitor, Watch
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    AS_OWNER,
    AS_STRANGER,
    FETCH_S,
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
)
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored

CATCH_UP_S = 80.0
"""At least so long the target may take to catch up."""

CATCH_UP_TRIGGERS = 6
"""And at least so many trigger intervals: it counts as level with where the source was one ago, not before
its next micro-batch, and then has four more to be level in results."""

ANSWER_S = 5.0
"""For the monitor to say that the time was too short."""


def ship_checkpoint(record: OperationRecord) -> ShipCheckpoint:
    """The source sends its newest checkpoint, and what changes meanwhile, and runs on."""
    return ShipCheckpoint(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        have=record.facts["launch-retrieve"].get("have", {}),
    )


def open_shadow(record: OperationRecord) -> OpenShadow:
    """The target's results will wait beside the output."""
    output = record.entry_after.output
    return OpenShadow(
        site=output.site, operation=record.id, job=record.job, epochs=[record.new_epoch], output=output
    )


def drop_shadow(record: OperationRecord) -> DropShadow:
    """What the target computed is not needed: the source has published it, or will."""
    return DropShadow(site=record.entry_after.output.site, operation=record.id, job=record.job)


def launch_shadow(record: OperationRecord) -> ResumeJob:
    """The target runs from the checkpoint that arrived, under an epoch the output does not accept yet."""
    return ResumeJob(
        site=record.entry_after.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        digest=record.facts["ship-checkpoint"]["digest"],
    )


def watch(record: OperationRecord) -> Watch:
    """Both runs publish results of equal identity: the monitor compares their values."""
    opened = record.facts["open-shadow"]
    trigger_s = record.entry_after.spec.trigger_s
    return both_runs(record, opened, check=ConsistencyCheck.IDENTITY, trigger_s=trigger_s)


def start_monitor(record: OperationRecord) -> StartMonitor:
    """The monitor begins to compare."""
    return StartMonitor(operation=record.id, watch=watch(record))


def catch_up_s(record: OperationRecord) -> float:
    """How long the target may take to catch up, seconds."""
    return max(CATCH_UP_S, CATCH_UP_TRIGGERS * record.entry_after.spec.trigger_s)


def await_consistency(record: OperationRecord) -> AwaitConsistency:
    """The target has caught up, and no result differs."""
    return AwaitConsistency(operation=record.id, watch=watch(record), within_s=catch_up_s(record))


def consistency_deadline_s(record: OperationRecord) -> float:
    """Longer than the monitor waits, so that its reason is heard, seconds."""
    return catch_up_s(record) + ANSWER_S


def stop_monitor(record: OperationRecord) -> StopMonitor:
    """Nothing is left to compare."""
    return StopMonitor(operation=record.id)


def set_epoch(record: OperationRecord) -> SetEpoch:
    """From now on the target's results are the job's, those first that waited in the shadow."""
    found = record.facts["await-consistency"]
    output = record.entry_after.output
    return SetEpoch(
        site=output.site,
        operation=record.id,
        job=record.job,
        epoch=record.new_epoch,
        output=output,
        settlement=Settlement(
            epoch=record.new_epoch,
            after_position=found.get("position", 0),
            amended=found.get("amended", []),
            interim=record.interim_epoch,
        ),
    )


SOURCE, TARGET, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.TARGET, Actor.OUTPUT, Actor.COORDINATOR
MONITOR = Actor.MONITOR
NO_SHADOW = Compensation(OUTPUT, drop_shadow)
NO_MONITOR = Compensation(MONITOR, stop_monitor)

# fmt: off
STEPS: tuple[Step, ...] = (
    #    name                 actor        command            deadline, attempt            undone by
    Step("assign-source",     SOURCE,      assign_source,     15.0, 3.0,                   AS_OWNER),
    Step("assign-target",     TARGET,      assign_target,     30.0, 3.0,                   AS_STRANGER,
         busy_s=FETCH_S),
    Step("launch-retrieve",   TARGET,      launch_retrieve,   90.0, 3.0),
    Step("open-shadow",       OUTPUT,      open_shadow,       15.0, 3.0,                   NO_SHADOW),
    Step("ship-checkpoint",   SOURCE,      ship_checkpoint,   SHIP_S, 3.0),
    Step("launch-shadow",     TARGET,      launch_shadow,     60.0, 3.0,                   TARGET_STANDS),
    Step("start-monitor",     MONITOR,     start_monitor,     15.0, 3.0,                   NO_MONITOR),
    Step("await-consistency", MONITOR,     await_consistency, consistency_deadline_s, 3.0, SOURCE_RUNS),
    Step("set-epoch",         OUTPUT,      set_epoch,         30.0, 10.0,                  SOURCE_MAY_PUBLISH,
         point_of_no_return=True),
    Step("stop-monitor",      MONITOR,     stop_monitor,      10.0, 3.0,                   optional=True),
    Step("record-owner",      COORDINATOR, record_owner),
    Step("reset-source",      SOURCE,      reset_source,      20.0, 3.0),
    Step("reset-target",      TARGET,      reset_target,      20.0, 3.0),
)
# fmt: on

HANDOVER = Strategy("handover", STEPS, restored)
