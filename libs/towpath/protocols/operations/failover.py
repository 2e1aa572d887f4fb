"""Fail over: a job goes on at its standby, from the newest copy of its state, without its site's help.

The output changes hands first. Whatever the lost site still publishes, should it only be cut off, is refused
from then on. An output that was at the lost site is out of reach. The standby promotes its copy, under the
same topic. What the lost site has published and no one has is computed again.

What happens when

- a command or its answer is lost: it is sent again. Each is harmless when it is repeated.
- the coordinator dies: the journal says how far it came, and the next one goes on.
- the standby dies before the output changes hands: nothing has changed, and the job waits for its site. A
  copy that was promoted is made again.
- the standby dies after it: the step is tried until it is back. Until then no one publishes.
- the lost site comes back at any moment: it is fenced, and reconciliation takes the job from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from towpath.contracts.commands import OperationKind
from towpath.contracts.job import DesiredState
from towpath.contracts.message import SiteName
from towpath.contracts.standby import KeepStandby, PromoteOutput, TakeOver, standby_operation
from towpath.protocols import shared_steps
from towpath.protocols.epochs import restored
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, asks, writes
from towpath.protocols.table import StepTable, register

START_S = 120.0
"""Time for the engine to start, and for the job to run."""


def keep_standby(entry: JobEntry, site: SiteName, **more: Any) -> KeepStandby:
    """Return the command that makes a site the standby of a job, or asks what it has as such."""
    operation = standby_operation(entry.spec.name, entry.epoch)
    kept = entry.assignment(desired=DesiredState.STANDBY, migration=operation)
    return KeepStandby(site=site, operation=operation, assignment=kept, **more)


@asks(Actor.TARGET, 30.0)
def find_copy(record: OperationRecord) -> KeepStandby:
    """The standby has a copy of the job's state, and its engine answers."""
    return keep_standby(record.entry_before, record.entry_after.site, needed=True)


@asks(Actor.TARGET, 60.0, 10.0)
def promote_output(record: OperationRecord) -> PromoteOutput:
    """The standby adds to its copy of the output what reachable readers have of it, and promotes it."""
    after = record.entry_after
    return PromoteOutput(
        site=after.site,
        operation=record.id,
        job=record.job,
        epoch=record.old_epoch,
        output=after.output,
        readers=record.readers,
    )


STAYS_FENCED = Compensation(
    Actor.OUTPUT,
    shared_steps.unset_epoch,
    must=True,
    # A new or a promoted output has no owner until the standby runs the job. The old one was not touched.
    owed=lambda record: not record.is_redirect,
    owed_if="if the output stays where it is",
)

set_epoch = replace(shared_steps.set_epoch, compensation=STAYS_FENCED, point_of_no_return=True)


@asks(Actor.TARGET, START_S, 15.0, endless=True)
def take_over(record: OperationRecord) -> TakeOver:
    """The standby runs the job from that copy."""
    after = record.entry_after
    return TakeOver(site=after.site, operation=record.id, assignment=after.assignment())


@writes()
def record_owner(record: OperationRecord) -> RegistryChange:
    """The registry names the standby as owner."""
    return RegistryChange(job=record.job, entry=record.entry_after)


FAIL_OVER = register(
    StepTable(
        name="fail-over",
        kind=OperationKind.FAIL_OVER,
        summary="a job whose site is lost goes on at its standby",
        chosen=lambda record: not record.promotes_output,
        steps=(find_copy, set_epoch, take_over, record_owner),
        rolled_back=restored,
    )
)

FAIL_OVER_WITH_OUTPUT = register(
    StepTable(
        name="fail-over-with-output",
        kind=OperationKind.FAIL_OVER,
        summary="the same where the job's output was at its site",
        chosen=lambda record: record.promotes_output,
        steps=(find_copy, promote_output, set_epoch, take_over, record_owner),
        rolled_back=restored,
    )
)
