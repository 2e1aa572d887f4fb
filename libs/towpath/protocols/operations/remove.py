"""A job that ends. It is stopped while that can be undone, and forgotten once it cannot.

Deleting the checkpoint has no way back, so it comes after the registry has forgotten the job: a
site that cannot be reached then is told again when it returns, because it runs a job nobody owns.
"""

from __future__ import annotations

from towpath.contracts.job import ResolvedOutput
from towpath.contracts.migration import DropOutput, StartJob, StopJob
from towpath.protocols.record import FormerJob, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored


def stop_job(record: OperationRecord) -> StopJob:
    """The job stops at a micro-batch boundary; if asked for, with nothing left to process."""
    site = record.entry_before.site
    return StopJob(site=site, operation=record.id, job=record.job, drain=record.drain, drain_s=DRAIN_S)


def start_again(record: OperationRecord) -> StartJob:
    """The job goes on as before."""
    entry = record.entry_before
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


def record_removed(record: OperationRecord) -> RegistryChange:
    """The name is free; its epochs go on where they stood."""
    before = record.entry_before
    epoch = max(before.epoch, before.used_epoch)
    kept = [o for o in before.closed if o not in _purged(record)]
    former = FormerJob(epoch=epoch, output=None if record.purge else before.output, closed=kept)
    return RegistryChange(job=record.job, entry=None, former=former)


def forget_job(record: OperationRecord) -> StopJob:
    """The checkpoint is deleted."""
    site = record.entry_before.site
    return StopJob(site=site, operation=record.id, job=record.job, forget=True)


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
    """The output, and older ones at the same site."""
    before = record.entry_before
    outputs = [o for o in (*before.closed, before.output) if o.site == before.output.site]
    return outputs if record.purge else []


DRAIN_S = 300.0
"""For a job to process what its inputs hold."""

RUNS_AGAIN = Compensation(Actor.SOURCE, start_again, must=True)
SOURCE, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.OUTPUT, Actor.COORDINATOR

# fmt: off
_REMOVE: tuple[Step, ...] = (
    #    name              actor        command         deadline, attempt   undone by
    Step("stop-job",       SOURCE,      stop_job,       DRAIN_S + 30.0, 12.0, RUNS_AGAIN),
    Step("record-removed", COORDINATOR, record_removed, point_of_no_return=True),
    Step("forget-job",     SOURCE,      forget_job,     30.0, 12.0),
)
REMOVE = Strategy("remove", _REMOVE, restored)
REMOVE_AND_PURGE = Strategy("remove-and-purge", (
    *_REMOVE,
    Step("drop-output",    OUTPUT,      drop_output,    30.0, 5.0),
), restored)
# fmt: on
