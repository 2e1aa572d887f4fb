"""A new job: recorded, checked by the engine, allowed to publish, started."""

from __future__ import annotations

from typing import Any

from towpath.contracts.migration import CheckSpec, DropOutput, SetEpoch, SiteCommand, StartJob, StopJob
from towpath.protocols.record import FormerJob, OperationRecord, RegistryChange
from towpath.protocols.shared_steps import FETCH_S, set_epoch
from towpath.protocols.step import Actor, Compensation, Step, Strategy


def record_job(record: OperationRecord) -> RegistryChange:
    """The name is taken; the job is not running yet."""
    entry = record.entry_after.model_copy(update={"running": False})
    return RegistryChange(job=record.job, entry=entry)


def check_spec(record: OperationRecord) -> CheckSpec:
    """The engine builds the plan without starting it."""
    after = record.entry_after
    return CheckSpec(site=after.site, operation=record.id, assignment=after.assignment())


def start_job(record: OperationRecord) -> StartJob:
    """The job runs."""
    after = record.entry_after
    return StartJob(site=after.site, operation=record.id, assignment=after.assignment())


def record_running(record: OperationRecord) -> RegistryChange:
    """Others may read what the job writes."""
    return RegistryChange(job=record.job, entry=record.entry_after)


def forget_job(record: OperationRecord) -> StopJob:
    """Nothing of the job stays at its site."""
    site = record.entry_after.site
    return StopJob(site=site, operation=record.id, job=record.job, forget=True)


def withdraw_output(record: OperationRecord) -> SiteCommand[Any]:
    """Delete the output stream if this operation made it; else fence the job that was started."""
    output = record.entry_after.output
    if record.output_existed:
        return SetEpoch(
            site=output.site, operation=record.id, job=record.job, epoch=record.undo_epoch, output=output
        )
    return DropOutput(site=output.site, operation=record.id, job=record.job, streams=[output.stream])


def withdrawn(record: OperationRecord) -> RegistryChange:
    """The name is free again; its epochs go on where they stood."""
    after = record.entry_after
    output = after.output if record.output_existed else None
    former = None
    if record.undo_epoch:
        former = FormerJob(epoch=record.undo_epoch, output=output, closed=after.closed)
    return RegistryChange(job=record.job, entry=None, former=former)


NO_OUTPUT = Compensation(Actor.OUTPUT, withdraw_output)
NO_JOB = Compensation(Actor.TARGET, forget_job)
TARGET, OUTPUT, COORDINATOR = Actor.TARGET, Actor.OUTPUT, Actor.COORDINATOR

# fmt: off
DEPLOY = Strategy("deploy", (
    #    name              actor        command         deadline, attempt   undone by
    Step("record-job",     COORDINATOR, record_job),
    Step("check-spec",     TARGET,      check_spec,     60.0, 20.0,         busy_s=FETCH_S),
    Step("set-epoch",      OUTPUT,      set_epoch,      15.0, 3.0,          NO_OUTPUT),
    Step("start-job",      TARGET,      start_job,      60.0, 15.0,         NO_JOB,
         point_of_no_return=True),
    Step("record-running", COORDINATOR, record_running),
), withdrawn)
# fmt: on
