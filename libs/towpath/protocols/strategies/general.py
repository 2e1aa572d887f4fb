"""Migration with state: pause, carry, resume (thesis ch. 5, Algorithms 5.1 and 5.2, Fig. 5.4).

`contracts/PROTOCOL.md` says why each step keeps the invariants. Steps after `resume` only go
forward: from then on the target has the newest state.
"""

from __future__ import annotations

from towpath.contracts.commands import StrategyName
from towpath.contracts.migration import PauseTransfer, ResumeJob
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    AS_OWNER,
    AS_STRANGER,
    FETCH_S,
    SOURCE_MAY_PUBLISH,
    SOURCE_RUNS,
    TARGET_STANDS,
    TRANSFER_S,
    assign_source,
    assign_target,
    launch_retrieve,
    observe,
    record_owner,
    reset_source,
    reset_target,
    set_epoch,
)
from towpath.protocols.step import Actor, Step, Strategy, restored


def pause_transfer(record: OperationRecord) -> PauseTransfer:
    """The source stops, and sends what the target does not have."""
    return PauseTransfer(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        have=record.facts["launch-retrieve"].get("have", {}),
        transfer_state=record.strategy is StrategyName.GENERAL,
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


SOURCE, TARGET, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.TARGET, Actor.OUTPUT, Actor.COORDINATOR

# fmt: off
STEPS: tuple[Step, ...] = (
    #    name               actor        command          deadline, attempt       undone by
    Step("assign-source",   SOURCE,      assign_source,   15.0, 3.0,              AS_OWNER),
    Step("assign-target",   TARGET,      assign_target,   30.0, 3.0,              AS_STRANGER,
         busy_s=FETCH_S),
    Step("launch-retrieve", TARGET,      launch_retrieve, 90.0, 3.0),
    Step("pause-transfer",  SOURCE,      pause_transfer,  TRANSFER_S, 3.0,        SOURCE_RUNS),
    Step("set-epoch",       OUTPUT,      set_epoch,       15.0, 3.0,              SOURCE_MAY_PUBLISH),
    Step("resume",          TARGET,      resume,          60.0, 3.0,              TARGET_STANDS,
         point_of_no_return=True),
    Step("record-owner",    COORDINATOR, record_owner),
    Step("reset-source",    SOURCE,      reset_source,    20.0, 3.0),
    Step("reset-target",    TARGET,      reset_target,    20.0, 3.0),
    Step("observe",         TARGET,      observe,         15.0, 15.0,             optional=True),
)
# fmt: on

GENERAL = Strategy("general", STEPS, restored)
