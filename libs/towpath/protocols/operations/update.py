"""A changed job at the same site: it goes on at the serial number where it stood.

Another topic is another stream: the old one is closed, what is in it stays, and whoever reads it reads it
to its end before it reads the new one. So everything before the serial number at which the job stopped
went to the old topic, and everything after it goes to the new one.

Settings that a running query can be told (`towpath.operators.live_changes`) need no stop: the job is
adjusted, under the epoch it has.

When inputs change, the next generation's checkpoint is made from the old one: the state goes on, and each
input from the serial number where it stood, or where a new one begins. When the state cannot survive the
change, the next generation starts with an empty checkpoint there. Until the operation has ended the agent
keeps the old generation.
"""

from __future__ import annotations

from towpath.contracts.job import Derivation
from towpath.contracts.migration import CloseOutput, StartJob, StopJob
from towpath.protocols.operations.deploy import check_spec
from towpath.protocols.record import JobEntry, OperationRecord, RegistryChange
from towpath.protocols.shared_steps import FETCH_S, set_epoch, unset_epoch
from towpath.protocols.step import Actor, Compensation, Step, Strategy, restored


def stop_job(record: OperationRecord) -> StopJob:
    """The job stops at a micro-batch boundary and says how far it came."""
    return StopJob(
        site=record.entry_before.site,
        operation=record.id,
        job=record.job,
        drain_inputs=record.drain_inputs,
        drain_s=DRAIN_S,
        whole=record.is_redirect or record.keeps_state,
    )


def carried(record: OperationRecord) -> dict[str, int]:
    """Input of the new job → serial number where the old one stopped in the same stream."""
    stopped = record.facts["stop-job"]["serials"]
    before = {i.place: i.name for i in record.entry_before.inputs}
    same = ((i.name, before.get(i.place)) for i in record.entry_after.inputs)
    return {name: stopped[old] for name, old in same if old in stopped}


def changed(record: OperationRecord) -> JobEntry:
    """The new job; a new generation begins where the old one stood."""
    after = record.entry_after
    if after.generation == record.entry_before.generation:
        return after
    return after.after_serials(carried(record))


def start_changed(record: OperationRecord) -> StartJob:
    """The new job runs."""
    entry, before = changed(record), record.entry_before
    derived = None
    if record.keeps_state:
        derived = Derivation(
            generation=before.generation, inputs=[i.name for i in before.inputs], serials=carried(record)
        )
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment(derived=derived))


def close_output(record: OperationRecord) -> CloseOutput:
    """The old stream takes no more."""
    output = record.entry_before.output
    return CloseOutput(
        site=output.site, operation=record.id, job=record.job, epoch=record.old_epoch, output=output
    )


def close_new_output(record: OperationRecord) -> CloseOutput:
    """Nor does the new one. It stays: somebody may read it already."""
    output = record.entry_after.output
    return CloseOutput(
        site=output.site, operation=record.id, job=record.job, epoch=record.new_epoch, output=output
    )


def start_old(record: OperationRecord) -> StartJob:
    """The old job runs again, above every epoch that was set."""
    entry = record.entry_before.at_epoch(record.undo_epoch)
    return StartJob(site=entry.site, operation=record.id, assignment=entry.assignment())


def record_changed(record: OperationRecord) -> RegistryChange:
    """The registry has the new job."""
    return RegistryChange(job=record.job, entry=changed(record))


DRAIN_S = 120.0
"""For a job to read what it will not read again."""

SOURCE, OUTPUT, COORDINATOR = Actor.SOURCE, Actor.OUTPUT, Actor.COORDINATOR
OLD_RUNS = Compensation(SOURCE, start_old, must=True)
OLD_MAY_PUBLISH = Compensation(OUTPUT, unset_epoch, must=True)
# Until the new job is started nobody publishes there, and the old one need not wait for a site out of reach.
NEW_IS_CLOSED = Compensation(
    OUTPUT, close_new_output, must=True, owed=lambda record: "start-job" in record.begun
)

# fmt: off
ADJUST = Strategy("adjust", (
    #    name              actor        command         deadline, attempt   undone by
    Step("check-spec",     SOURCE,      check_spec,     60.0, 20.0,         busy_s=FETCH_S),
    Step("adjust-job",     SOURCE,      start_changed,  60.0, 15.0,         point_of_no_return=True),
    Step("record-changed", COORDINATOR, record_changed),
), restored)

UPDATE = Strategy("update", (
    #    name              actor        command         deadline, attempt   undone by
    Step("check-spec",     SOURCE,      check_spec,     60.0, 20.0,         busy_s=FETCH_S),
    Step("stop-job",       SOURCE,      stop_job,       DRAIN_S + 60.0, 12.0, OLD_RUNS),
    Step("set-epoch",      OUTPUT,      set_epoch,      15.0, 3.0,          OLD_MAY_PUBLISH),
    Step("start-job",      SOURCE,      start_changed,  60.0, 15.0,         point_of_no_return=True),
    Step("record-changed", COORDINATOR, record_changed),
), restored)

REDIRECT = Strategy("redirect", (
    #    name              actor        command         deadline, attempt   undone by
    Step("check-spec",     SOURCE,      check_spec,     60.0, 20.0,         busy_s=FETCH_S),
    Step("stop-job",       SOURCE,      stop_job,       DRAIN_S + 60.0, 12.0, OLD_RUNS),
    Step("close-output",   OUTPUT,      close_output,   15.0, 3.0,          OLD_MAY_PUBLISH),
    Step("set-epoch",      OUTPUT,      set_epoch,      15.0, 3.0,          NEW_IS_CLOSED),
    Step("start-job",      SOURCE,      start_changed,  60.0, 15.0,         point_of_no_return=True),
    Step("record-changed", COORDINATOR, record_changed),
), restored)
# fmt: on
