"""Every table × every step × every fault: the operation ends, and nothing is lost or published twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from towpath.contracts.commands import EXAMPLE_SPEC, OperationKind, OperationState, StrategyName
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import OperationBegun, OperationEnded, StepDone
from towpath.contracts.job import JobSpec, ResolvedInput, ResolvedOutput
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import SiteCommand, StartJob
from towpath.protocols.memory_ledger import MemoryLedger
from towpath.protocols.record import ENDED, JobEntry, OperationRecord
from towpath.protocols.runner import Runner, Superseded
from towpath.protocols.simulation import SimulatedClock, SimulatedMesh
from towpath.protocols.strategies import strategy_of

JOB = "hourly-jfk"
SPEC = JobSpec.model_validate(EXAMPLE_SPEC)


class Killed(BaseException):
    """SIGKILL: nothing after it runs."""


def entry(site: str = "jfk", epoch: int = 1, generation: int = 1, **spec: Any) -> JobEntry:
    return JobEntry(
        spec=SPEC.model_copy(update=spec),
        site=site,
        epoch=epoch,
        generation=generation,
        inputs=[
            ResolvedInput(name="jfk/clean", site="jfk", stream="OUT_clean", subject=None, from_device=False)
        ],
        output=ResolvedOutput(
            site="out", stream="OUT_hourly-jfk", topic="departures/hourly", rejected_topic="rejected"
        ),
    )


def operation(name: str) -> OperationRecord:
    old = entry()
    fields: dict[str, Any] = {
        "general": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=2)},
        "restart": {"kind": "migrate", "before": old, "after": entry(site="cloud", epoch=2, generation=2)},
        "deploy": {"kind": "deploy", "after": old, "output_existed": False},
        "redeploy": {"kind": "deploy", "after": old.at_epoch(2), "output_existed": True},
        "update": {"kind": "update", "before": old, "after": entry(epoch=2, trigger_s=3.0)},
        "update-without-state": {"kind": "update", "before": old, "after": entry(epoch=2, generation=2)},
        "remove": {"kind": "remove", "before": old},
        "remove-and-purge": {"kind": "remove", "before": old, "purge": True},
    }[name]
    epoch = 0 if name == "deploy" else 1
    strategy = StrategyName(name) if fields["kind"] == "migrate" else None
    return OperationRecord(
        id="5f0c9a7be210", command="c1", job=JOB, strategy=strategy, old_epoch=epoch, new_epoch=epoch + 1,
        begun_at=SimulatedClock().now(), **fields,
    )  # fmt: skip


OPERATIONS = (
    "general", "restart", "deploy", "redeploy", "update", "update-without-state", "remove", "remove-and-purge"
)  # fmt: skip
EVERY_STEP = [(name, step.name) for name in OPERATIONS for step in strategy_of(operation(name)).steps]


@dataclass
class Trial:
    """One operation on a simulated mesh, with faults at chosen messages."""

    name: str
    clock: SimulatedClock = field(default_factory=SimulatedClock)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    events: list[Event] = field(default_factory=list)
    sent: list[SiteCommand[Any]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    """Command ids that are refused."""
    unheard: set[str] = field(default_factory=set)
    """Command ids that nobody gets."""
    unanswered: set[str] = field(default_factory=set)
    """Command ids that are carried out, but whose answers are lost."""
    dead: set[str] = field(default_factory=set)
    killed_at: set[str] = field(default_factory=set)
    """Moments at which the coordinator is killed, once each."""

    def __post_init__(self) -> None:
        self.record = operation(self.name)
        self.mesh = SimulatedMesh(self.clock, "jfk", "cloud", "out")
        self.ledger.around = self.moment
        before = self.record.before
        if before is not None:
            self.ledger.jobs[JOB] = before
            self.mesh.sites["jfk"].handle(start(before))
        if self.record.kind is not OperationKind.DEPLOY or self.record.output_existed:
            self.mesh.accept(JOB, 1, entry().output)
        self.mesh.work(10)
        self.ledger.accept(self.record)

    def moment(self, moment: str) -> None:
        if moment in self.killed_at:
            self.killed_at.remove(moment)
            raise Killed(moment)

    async def send(self, command: SiteCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        self.sent.append(command)
        self.mesh.work()
        self.mesh.check(JOB)
        if command.id in self.refused:
            raise TowpathError(ErrorCode.FAILED, "refused")
        if command.id in self.unheard or command.site in self.dead:
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.UNREACHABLE, "nobody answers")
        answer = self.mesh.sites[command.site].handle(command)
        self.mesh.check(JOB)
        self.moment(f"carried out {command.id}")
        if command.id in self.unanswered:
            self.clock.elapsed_s += deadline_s
            raise TowpathError(ErrorCode.DEADLINE, "no answer in time")
        return answer

    async def publish(self, event: Event) -> None:
        self.events.append(event)

    async def finish(self) -> OperationRecord:
        """Run, with a new coordinator after each death."""
        for _ in range(20):
            runner = Runner(self.ledger, self.send, self.publish, self.clock)
            try:
                return await runner.run(self.record.id)
            except Killed:
                continue
        raise AssertionError("it never ends")

    def check_end(self, record: OperationRecord) -> None:
        """The job runs where the registry says, it alone may publish, and every event counts once."""
        assert JOB not in self.ledger.locks
        assert record.id not in self.ledger.unannounced
        self.mesh.work()
        self.mesh.check(JOB)
        owner = self.ledger.jobs.get(JOB)
        if owner is None:
            assert self.mesh.owners(JOB) == []
            return
        assert self.mesh.owners(JOB) == [owner.site]
        hosted = self.mesh.sites[owner.site].hosted[JOB].assignment
        assert (hosted.epoch, hosted.generation) == (owner.epoch, owner.generation)
        assert self.mesh.outputs[JOB].accepted == owner.epoch
        assert self.mesh.published[JOB] == set(range(1, self.mesh.stored + 1))


def start(job: JobEntry) -> StartJob:
    return StartJob(id="before", site=job.site, operation="before", assignment=job.assignment())


def succeeded(record: OperationRecord) -> bool:
    return record.state is OperationState.COMPLETED


@pytest.mark.parametrize("name", OPERATIONS)
async def test_operation_when_nothing_goes_wrong_then_completes(name: str) -> None:
    trial = Trial(name)
    record = await trial.finish()
    assert succeeded(record)
    assert record.note == ""
    trial.check_end(record)
    kept = trial.ledger.jobs.get(JOB)
    if name.startswith("remove"):
        assert kept is None
        assert (JOB in trial.mesh.outputs) is (name == "remove")
    else:
        assert kept is not None
        assert (kept.site, kept.epoch) == (record.target, record.new_epoch)


@pytest.mark.parametrize("fault", ["refused", "unheard", "unanswered"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP, ids=lambda part: part)
async def test_step_when_it_fails_then_operation_completes_or_is_undone(
    name: str, step: str, fault: str
) -> None:
    trial = Trial(name)
    getattr(trial, fault).add(f"{trial.record.id}-{step}")
    record = await trial.finish()
    assert record.state in (OperationState.COMPLETED, OperationState.ROLLED_BACK)
    asked = any(command.id.endswith(f"-{step}") for command in trial.sent)
    assert asked or succeeded(record)
    if record.state is OperationState.ROLLED_BACK:
        assert record.note.startswith(f"{step}: ")
    trial.check_end(record)


@pytest.mark.parametrize("when", ["before send", "after send", "after confirm"])
@pytest.mark.parametrize(("name", "step"), EVERY_STEP, ids=lambda part: part)
async def test_coordinator_when_killed_at_a_step_then_the_next_one_completes(
    name: str, step: str, when: str
) -> None:
    trial = Trial(name)
    moments = {
        "before send": f"after {step} begun",
        "after send": f"before {step} confirmed",
        "after confirm": f"after {step} confirmed",
    }
    trial.killed_at = {moments[when]}
    record = await trial.finish()
    assert trial.killed_at == set(), "the coordinator was not killed"
    assert succeeded(record)
    trial.check_end(record)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("phase", ["failed", "compensating", "compensated"])
@pytest.mark.parametrize("name", ["general", "restart", "update", "deploy", "remove"])
async def test_coordinator_when_killed_while_undoing_then_the_next_one_undoes(
    name: str, phase: str, when: str
) -> None:
    failing = [s for s in strategy_of(operation(name)).steps if s.actor != "coordinator"]
    reversible = next(s for s in reversed(failing) if s.name not in ("observe",) and s.deadline_s >= 15)
    step = {"general": "resume", "restart": "resume", "remove": "stop-job"}.get(name, reversible.name)
    trial = Trial(name)
    trial.refused = {f"{trial.record.id}-{step}"}
    undone = {"update": "set-epoch", "deploy": "set-epoch", "remove": "stop-job"}.get(name, "pause-transfer")
    trial.killed_at = {f"{when} {step if phase == 'failed' else undone} {phase}"}
    record = await trial.finish()
    assert trial.killed_at == set(), "the coordinator was not killed"
    assert record.state is OperationState.ROLLED_BACK
    trial.check_end(record)


@pytest.mark.parametrize("moment", ["before end", "after end"])
async def test_coordinator_when_killed_at_the_end_then_the_end_is_announced(moment: str) -> None:
    trial = Trial("general")
    trial.killed_at = {moment}
    record = await trial.finish()
    assert record.state in ENDED
    assert [type(e) for e in trial.events].count(OperationEnded) == 1
    trial.check_end(record)


async def test_events_when_operation_runs_then_begun_steps_ended_in_order() -> None:
    trial = Trial("general")
    await trial.finish()
    assert isinstance(trial.events[0], OperationBegun)
    assert isinstance(trial.events[-1], OperationEnded)
    confirmed = [e.step for e in trial.events if isinstance(e, StepDone) and e.phase == "confirmed"]
    assert confirmed == [step.name for step in strategy_of(trial.record).steps]


async def test_repetition_when_coordinator_was_killed_then_has_the_same_command_id() -> None:
    trial = Trial("general")
    trial.killed_at = {"before pause-transfer confirmed"}
    await trial.finish()
    pauses = [command for command in trial.sent if command.verb() == "pause-transfer"]
    assert len(pauses) == 2
    assert pauses[0] == pauses[1]


async def test_rollback_when_epoch_was_set_then_source_comes_back_above_it() -> None:
    trial = Trial("general")
    trial.refused = {f"{trial.record.id}-resume"}
    record = await trial.finish()
    assert record.state is OperationState.ROLLED_BACK
    assert trial.ledger.jobs[JOB].site == "jfk"
    assert trial.ledger.jobs[JOB].epoch == 3
    trial.check_end(record)


async def test_rollback_when_target_is_dead_then_source_runs_within_seconds() -> None:
    trial = Trial("general")
    trial.killed_at = {"after pause-transfer confirmed"}
    with pytest.raises(Killed):
        await Runner(trial.ledger, trial.send, trial.publish, trial.clock).run(trial.record.id)
    trial.dead = {"cloud"}
    record = await trial.finish()
    assert record.state is OperationState.ROLLED_BACK
    trial.check_end(record)
    failed = next(e.at for e in trial.events if isinstance(e, StepDone) and e.phase == "failed")
    runs = [e.at for e in trial.events if isinstance(e, StepDone) and e.phase == "compensated"]
    assert (runs[1] - failed).total_seconds() < 10


async def test_rollback_when_source_stays_away_then_needs_operator_and_says_what_to_do() -> None:
    trial = Trial("general")
    trial.refused = {f"{trial.record.id}-resume"}
    trial.unheard = {f"{trial.record.id}-pause-transfer-undo"}
    record = await trial.finish()
    assert record.state is OperationState.NEEDS_OPERATOR
    assert "towpath up" in record.note
    assert "jfk" in record.note
    assert trial.clock.elapsed_s >= 120
    assert trial.ledger.jobs[JOB].site == "jfk", "the registry still names the owner"
    assert JOB not in trial.ledger.locks


async def test_migration_when_source_dies_after_the_resume_then_completes_and_says_so() -> None:
    trial = Trial("general")
    trial.unheard = {f"{trial.record.id}-reset-source"}
    record = await trial.finish()
    assert succeeded(record)
    assert "reset-source" in record.note
    assert trial.mesh.owners(JOB) == ["cloud"], "the old source is fenced"


async def test_figures_when_migrated_then_tell_downtime_less_trigger_and_state() -> None:
    trial = Trial("general")
    record = await trial.finish()
    assert record.figures is not None
    assert record.figures.downtime_s == 2.0
    assert record.figures.state_bytes == 100


async def test_figures_when_no_input_came_then_downtime_is_unknown() -> None:
    trial = Trial("general")
    trial.refused = {f"{trial.record.id}-observe"}
    record = await trial.finish()
    assert succeeded(record)
    assert record.figures is not None
    assert record.figures.downtime_s is None


async def test_second_coordinator_when_first_has_written_on_then_first_gives_up() -> None:
    trial = Trial("general")
    first = Runner(trial.ledger, trial.send, trial.publish, trial.clock)
    taken = trial.send

    async def overtaken(command: SiteCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        answer = await taken(command, deadline_s=deadline_s, attempt_s=attempt_s)
        if command.verb() == "pause-transfer":
            await first.run(trial.record.id)
        return answer

    second = Runner(trial.ledger, overtaken, trial.publish, trial.clock)
    with pytest.raises(Superseded):
        await second.run(trial.record.id)
    trial.check_end((await trial.ledger.load(trial.record.id))[0])
