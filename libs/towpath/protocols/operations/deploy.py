"""Deploy a new job: record it, let the engine check it, let it publish, start it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from towpath.contracts.commands import OperationKind
from towpath.contracts.migration import SiteCommand
from towpath.contracts.site_commands import CheckSpec, DropOutput, StartJob, StopJob
from towpath.protocols import shared_steps
from towpath.protocols.epochs import accept, highest_epoch, undo_epoch
from towpath.protocols.record import FormerJob, OperationRecord, RegistryChange
from towpath.protocols.shared_steps import FETCH_S
from towpath.protocols.step import Actor, Compensation, asks, writes
from towpath.protocols.table import StepTable, register


def withdraw_output(record: OperationRecord) -> SiteCommand[Any]:
    """Delete the output stream if this operation made it; else fence the job that was started."""
    output = record.entry_after.output
    if record.output_existed:
        return accept(record, output, undo_epoch(record))
    return DropOutput(site=output.site, operation=record.id, job=record.job, streams=[output.stream])


def forget_job(record: OperationRecord) -> StopJob:
    """Nothing of the job stays at its site."""
    site = record.entry_after.site
    epoch = highest_epoch(record)
    return StopJob(site=site, operation=record.id, job=record.job, epoch=epoch, forget=True)


NO_OUTPUT = Compensation(Actor.OUTPUT, withdraw_output)
NO_JOB = Compensation(Actor.TARGET, forget_job)


@writes()
def record_job(record: OperationRecord) -> RegistryChange:
    """The name is taken; the job is not running yet."""
    entry = record.entry_after.model_copy(update={"running": False})
    return RegistryChange(job=record.job, entry=entry)


@asks(Actor.TARGET, 120.0, 15.0, busy_s=FETCH_S)
def check_spec(record: OperationRecord) -> CheckSpec:
    """The engine builds the plan without starting it."""
    after = record.entry_after
    return CheckSpec(site=after.site, operation=record.id, assignment=after.assignment())


set_epoch = replace(shared_steps.set_epoch, compensation=NO_OUTPUT)


@asks(Actor.TARGET, 60.0, 15.0, undone_by=NO_JOB, point_of_no_return=True)
def start_job(record: OperationRecord) -> StartJob:
    """The job runs."""
    after = record.entry_after
    return StartJob(site=after.site, operation=record.id, assignment=after.assignment())


@writes()
def record_running(record: OperationRecord) -> RegistryChange:
    """Others may read what the job writes."""
    return RegistryChange(job=record.job, entry=record.entry_after)


def withdrawn(record: OperationRecord) -> RegistryChange:
    """The name is free again; its epochs go on where they stood."""
    after, back = record.entry_after, undo_epoch(record)
    output = after.output if record.output_existed else None
    former = FormerJob(epoch=back, output=output, closed=after.closed) if back else None
    return RegistryChange(job=record.job, entry=None, former=former)


DEPLOY = register(
    StepTable(
        name="deploy",
        kind=OperationKind.DEPLOY,
        summary="a new job",
        steps=(record_job, check_spec, set_epoch, start_job, record_running),
        rolled_back=withdrawn,
    )
)
