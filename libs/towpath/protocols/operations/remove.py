"""Remove a job: stop it, take it out of the registry, delete its checkpoint.

Deleting the checkpoint cannot be undone, so it comes after the registry has forgotten the job. A site that
is out of reach by then is told again when it returns, because it runs a job that no site owns.
"""

from __future__ import annotations

from towpath.contracts.commands import OperationKind
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site_commands import DropOutput, StartJob, StopJob
from towpath.protocols.epochs import highest_epoch, restored
from towpath.protocols.record import FormerJob, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, asks, writes
from towpath.protocols.table import StepTable, register

DRAIN_S = 300.0
"""Time for a job to process what its inputs hold."""


def start_again(record: OperationRecord) -> StartJob:
    """The job goes on as before."""
    entry = record.entry_before
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


RUNS_AGAIN = Compensation(Actor.SOURCE, start_again, must=True)


@asks(Actor.SOURCE, DRAIN_S + 30.0, 12.0, undone_by=RUNS_AGAIN)
def stop_job(record: OperationRecord) -> StopJob:
    """The job stops at a micro-batch boundary; if asked for, with nothing left to process."""
    site = record.entry_before.site
    return StopJob(
        site=site,
        operation=record.id,
        job=record.job,
        epoch=highest_epoch(record),
        drain=record.drain,
        drain_s=DRAIN_S,
    )


@writes(point_of_no_return=True)
def record_removed(record: OperationRecord) -> RegistryChange:
    """The name is free; its epochs go on where they stood."""
    before = record.entry_before
    epoch = max(before.epoch, before.used_epoch)
    kept = [o for o in before.closed if o not in _purged(record)]
    former = FormerJob(epoch=epoch, output=None if record.purge else before.output, closed=kept)
    return RegistryChange(job=record.job, entry=None, former=former)


@asks(Actor.SOURCE, 30.0, 12.0)
def forget_job(record: OperationRecord) -> StopJob:
    """The checkpoint is deleted."""
    site = record.entry_before.site
    epoch = highest_epoch(record)
    return StopJob(site=site, operation=record.id, job=record.job, epoch=epoch, forget=True)


@asks(Actor.OUTPUT, 30.0, 5.0)
def drop_output(record: OperationRecord) -> DropOutput:
    """The results are deleted."""
    purged = _purged(record)
    return DropOutput(
        site=record.entry_before.output.site,
        operation=record.id,
        job=record.job,
        streams=[output.stream for output in purged],
    )


def _purged(record: OperationRecord) -> list[ResolvedOutput]:
    """Return the outputs to delete: the present one, and older ones at the same site."""
    before = record.entry_before
    outputs = [o for o in (*before.closed, before.output) if o.site == before.output.site]
    return outputs if record.purge else []


REMOVE = register(
    StepTable(
        name="remove",
        kind=OperationKind.REMOVE,
        summary="a job that ends; its results stay",
        chosen=lambda record: not (record.purge or record.forced),
        steps=(stop_job, record_removed, forget_job),
        rolled_back=restored,
    )
)

REMOVE_UNSEEN = register(
    StepTable(
        name="remove-unseen",
        kind=OperationKind.REMOVE,
        summary="a job whose site is out of reach; the site is told when it comes back",
        chosen=lambda record: record.forced,
        steps=(record_removed,),
        rolled_back=restored,
    )
)

REMOVE_AND_PURGE = register(
    StepTable(
        name="remove-and-purge",
        kind=OperationKind.REMOVE,
        summary="a job that ends with its results",
        chosen=lambda record: record.purge and not record.forced,
        steps=(*REMOVE.steps, drop_output),
        rolled_back=restored,
    )
)
