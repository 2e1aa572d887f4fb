"""Change a job at its site: it goes on at the serial number where it stood.

Another topic is another stream. The old stream is closed and keeps its results; its readers read it to its
end before they read the new one. So everything before the serial number at which the job stopped went to
the old topic, and everything after it goes to the new one.

Settings that a running query can be told (`towpath.composition.job_changes`) need no stop: the job is
adjusted, under the epoch it has.

A site may have adjusted its job itself while the hub was out of reach. The registry adopts that: one write,
because the job runs so already.

When inputs change, the next generation's checkpoint is made from the old one: it keeps the state, and each
input goes on from the serial number where it stood; a new input goes on from its beginning. When the state
cannot survive the change, the next generation starts there with an empty checkpoint. The agent keeps the old
generation until the operation has ended.
"""

from __future__ import annotations

from dataclasses import replace

from towpath.contracts.commands import OperationKind
from towpath.contracts.job import Derivation
from towpath.contracts.site_commands import CloseOutput, StartJob, StopJob
from towpath.protocols import shared_steps
from towpath.protocols.epochs import highest_epoch, restored, undo_epoch
from towpath.protocols.operations import deploy
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.shared_steps import SOURCE_MAY_PUBLISH
from towpath.protocols.step import Actor, Compensation, asks, writes
from towpath.protocols.table import StepTable, register

DRAIN_S = 120.0
"""Time for a job to read the rest of an input that it gives up."""


def start_old(record: OperationRecord) -> StartJob:
    """The old job runs again, above every epoch that was set."""
    entry = record.entry_before.at_epoch(undo_epoch(record))
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


def close_new_output(record: OperationRecord) -> CloseOutput:
    """The new stream takes no more results. It stays, because someone may read it already."""
    output = record.entry_after.output
    return CloseOutput(
        site=output.site, operation=record.id, job=record.job, epoch=record.new_epoch, output=output
    )


OLD_RUNS = Compensation(Actor.SOURCE, start_old, must=True)
# Nothing is published there until the new job is started: the old one need not wait for a site out of reach.
NEW_IS_CLOSED = Compensation(
    Actor.OUTPUT,
    close_new_output,
    must=True,
    owed=lambda record: start_job.name in record.begun,
    owed_if="if start-job has begun",
)

check_spec = replace(deploy.check_spec, actor=Actor.SOURCE)


@asks(Actor.SOURCE, DRAIN_S + 60.0, 12.0, undone_by=OLD_RUNS)
def stop_job(record: OperationRecord) -> StopJob:
    """The job stops at a micro-batch boundary and says how far it came."""
    return StopJob(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        epoch=highest_epoch(record),
        drain_inputs=record.drain_inputs,
        drain_s=DRAIN_S,
        # A micro-batch whose events are gone cannot be repeated, and one whose output is lost not finished.
        whole=(record.is_redirect or record.keeps_state) and not (record.is_broken or record.output_lost),
    )


@asks(Actor.OUTPUT, undone_by=SOURCE_MAY_PUBLISH, changes_hands=True)
def close_output(record: OperationRecord) -> CloseOutput:
    """The old stream takes no more results."""
    output = record.entry_before.output
    return CloseOutput(
        site=output.site, operation=record.id, job=record.job, epoch=record.old_epoch, output=output
    )


set_epoch = shared_steps.set_epoch
open_output = replace(set_epoch, compensation=NEW_IS_CLOSED)


@asks(Actor.SOURCE, 60.0, 15.0, point_of_no_return=True)
def start_job(record: OperationRecord) -> StartJob:
    """The new job runs."""
    entry, before = changed(record), record.entry_before
    derived = None
    if record.keeps_state:
        derived = Derivation(
            generation=before.generation, inputs=[i.name for i in before.inputs], serials=carried(record)
        )
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment(derived=derived))


adjust_job = replace(start_job, name="adjust-job", summary="The running job is told its new settings.")


@writes()
def record_changed(record: OperationRecord) -> RegistryChange:
    """The registry has the new job."""
    return RegistryChange(job=record.job, entry=changed(record))


def changed(record: OperationRecord) -> JobEntry:
    """Return the new job. A new generation begins where the old one stood."""
    after = record.entry_after
    if after.generation == record.entry_before.generation:
        return after
    return after.after_serials(carried(record))


def carried(record: OperationRecord) -> dict[str, int]:
    """Return, for each input of the new job, where the old job stopped in the same stream, or is to go on."""
    stopped = stop_job.fact_in(record).serials
    before = {entry.place: entry for entry in record.entry_before.inputs}
    found: dict[str, int] = {}
    for entry in record.entry_after.inputs:
        old, serials = before.get(entry.place), [record.resumes.get(entry.name)]
        if old is not None and old.numbering == entry.numbering:
            serials.append(stopped.get(old.name))  # It does not go back to what it has processed since.
        known = [serial for serial in serials if serial is not None]
        if known:
            found[entry.name] = max(known)
    return found


def restored_above(record: OperationRecord) -> RegistryChange:
    """Return the change of a rollback: the old settings, under a revision above the one the site was told.

    The site may have the new settings, or get them late. The revision tells it that the old ones count again.
    """
    change = restored(record)
    if adjust_job.name not in record.begun:
        return change
    assert change.entry is not None
    revision = record.entry_after.revision + 1
    return change.model_copy(update={"entry": change.entry.model_copy(update={"revision": revision})})


ADJUST = register(
    StepTable(
        name="adjust",
        kind=OperationKind.UPDATE,
        summary="an update that a running query can be told",
        chosen=lambda record: record.is_adjustment,
        steps=(check_spec, adjust_job, record_changed),
        rolled_back=restored_above,
    )
)

ADOPT = register(
    StepTable(
        name="adopt",
        kind=OperationKind.UPDATE,
        summary="an adjustment that the site has made without the hub",
        chosen=lambda record: record.by_site,
        steps=(replace(record_changed, point_of_no_return=True),),
        rolled_back=restored,
    )
)

UPDATE = register(
    StepTable(
        name="update",
        kind=OperationKind.UPDATE,
        summary="any other update",
        chosen=lambda record: not (record.is_adjustment or record.by_site or record.is_redirect),
        steps=(check_spec, stop_job, set_epoch, start_job, record_changed),
        rolled_back=restored,
    )
)

REDIRECT = register(
    StepTable(
        name="redirect",
        kind=OperationKind.UPDATE,
        summary="an update of the output's topic or site",
        chosen=lambda record: (
            record.is_redirect and not (record.is_adjustment or record.by_site or record.output_lost)
        ),
        steps=(check_spec, stop_job, close_output, open_output, start_job, record_changed),
        rolled_back=restored,
    )
)

REDIRECT_FROM_LOST = register(
    StepTable(
        name="redirect-from-lost",
        kind=OperationKind.UPDATE,
        summary="the same while the output's site is down; its stream keeps what it has",
        chosen=lambda record: record.output_lost,
        steps=(check_spec, stop_job, open_output, start_job, record_changed),
        rolled_back=restored,
    )
)
