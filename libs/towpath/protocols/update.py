"""A changed job at the same site: it goes on at the serial number where it stood.

When the state cannot survive the change, the next generation starts with an empty checkpoint after
the last serials of the old one. Until the operation has ended the agent keeps the old generation.
"""

from __future__ import annotations

from towpath.contracts.migration import StartJob, StopJob
from towpath.protocols.deploy import check_spec
from towpath.protocols.duties import set_epoch, unset_epoch
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored


def stop_job(record: OperationRecord) -> StopJob:
    """The job stops at a micro-batch boundary and says how far it came."""
    site = record.entry_before.site
    return StopJob(site=site, operation=record.id, job=record.job)


def changed(record: OperationRecord) -> JobEntry:
    """The new job; a new generation begins where the old one stood."""
    after = record.entry_after
    if after.generation == record.entry_before.generation:
        return after
    return after.after_serials(record.facts["stop-job"]["serials"])


def start_changed(record: OperationRecord) -> StartJob:
    """The new job runs."""
    entry = changed(record)
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


def start_old(record: OperationRecord) -> StartJob:
    """The old job runs again, above every epoch that was set."""
    entry = record.entry_before.at_epoch(record.undo_epoch)
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


def record_changed(record: OperationRecord) -> RegistryChange:
    """The registry has the new job."""
    return RegistryChange(job=record.job, entry=changed(record))


SOURCE, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.OUTPUT, Actor.COORDINATOR
OLD_RUNS = Compensation(SOURCE, start_old, must=True)
OLD_MAY_PUBLISH = Compensation(OUTPUT, unset_epoch, must=True)

# fmt: off
UPDATE = Strategy("update", (
    #    name              actor        command         deadline, attempt   undone by
    Step("check-spec",     SOURCE,      check_spec,     60.0, 20.0),
    Step("stop-job",       SOURCE,      stop_job,       30.0, 12.0,         OLD_RUNS),
    Step("set-epoch",      OUTPUT,      set_epoch,      15.0, 3.0,          OLD_MAY_PUBLISH),
    Step("start-job",      SOURCE,      start_changed,  60.0, 15.0,         point_of_no_return=True),
    Step("record-changed", COORDINATOR, record_changed),
), restored)
# fmt: on
