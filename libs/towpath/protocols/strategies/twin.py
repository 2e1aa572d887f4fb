"""Let a second site run a job beside the first: both publish, and the first of two equal results counts.

It is the `handover`, held open where both run. The output accepts both epochs, and drops the later of two
results with one message id. It ends with the target as owner, or as if it had never begun. So a slow site
delays nothing, and no one has to know beforehand which site will be faster (IoTCloud: replicate slow tasks at
run time).

A run that lags may publish what the other stored long ago, when the server has forgotten the id. So each run
reads what the output has stored since both may publish, see `towpath.streams.shared_output`.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.contracts.commands import MigrationFigures
from towpath.contracts.job import JobSpec
from towpath.contracts.migration import SetEpoch
from towpath.operators.kind import kind_of
from towpath.protocols import shared_steps
from towpath.protocols.epochs import owners, restored
from towpath.protocols.record import OperationRecord
from towpath.protocols.shared_steps import (
    SOURCE_MAY_PUBLISH,
    record_owner,
    reset_source,
    reset_target,
    stop_monitor,
)
from towpath.protocols.step import Actor, Hold, asks, holds
from towpath.protocols.strategies import handover
from towpath.protocols.strategies.handover import UNTIL_LEVEL, await_consistency, settle
from towpath.protocols.table import Strategy, register


@asks(Actor.OUTPUT, 30.0, 10.0, undone_by=SOURCE_MAY_PUBLISH, disturbs=True, changes_hands=True)
def share_output(record: OperationRecord) -> SetEpoch:
    """From now on both publish: first the output takes what waited in the shadow."""
    alone = settle(record, await_consistency.fact_in(record))
    both = owners(record, record.old_epoch, record.new_epoch)
    return alone.model_copy(update={"beside": record.old_epoch, "owners": both})


@holds
def run_both(record: OperationRecord) -> Hold:
    """Both publish, until someone ends it."""
    return Hold(record.hold_s)


def figures(record: OperationRecord) -> MigrationFigures:
    """Return the costs of a completed move, without the time in which both published."""
    moved = handover.figures(record)
    return moved.model_copy(update={"total_s": moved.total_s - run_both.fact_in(record).held_s})


set_epoch = replace(shared_steps.set_epoch, point_of_no_return=True)


def obstacle(spec: JobSpec) -> str | None:
    """Refuse jobs of which two runs may publish different results: they would be mixed."""
    why = kind_of(spec.operator).nondeterminism(spec.operator)
    if why is not None:
        return f"{why}, and two runs would mix theirs"
    if any(each.thinning is not None for each in spec.inputs):
        return "which events it reads depends on how far it is, and two runs would read different ones"
    return None


TWIN = register(
    Strategy(
        name="twin",
        summary="both sites publish, and the first of two equal results counts, until someone ends it",
        obstacle=obstacle,
        steps=(
            *UNTIL_LEVEL,
            share_output,
            stop_monitor,
            run_both,
            set_epoch,
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
