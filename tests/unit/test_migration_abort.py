"""Aborting a migration: before a step, during it, once more, and across a death of the coordinator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from running.waiting import WITHIN_S
from simulation import SimulatedClock, SimulatedMesh
from simulation.memory_ledger import MemoryLedger
from towpath.contracts.commands import (
    JournalEntry,
    OperationKind,
    OperationState,
    StrategyName,
)
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import EXAMPLE_SPEC, JobSpec, ResolvedInput, ResolvedOutput
from towpath.contracts.message import Event, Model
from towpath.contracts.migration import StepCommand
from towpath.contracts.site_commands import StartJob
from towpath.coordinator.migrations.requests import check_abortable, rolled_back
from towpath.protocols.progress import StepPhase
from towpath.protocols.record import JobEntry, OperationRecord
from towpath.protocols.requests import ABORTED, Requests
from towpath.protocols.runner import Runner
from towpath.protocols.table import strategies, table_of

JOB = "hourly-jfk"
OUTPUT = ResolvedOutput(site="out", stream=f"OUT_{JOB}", topic="hourly", rejected_topic="rejected")
INPUT = ResolvedInput(name="jfk/clean", site="jfk", stream="OUT_clean", subject=None, from_device=False)
WINDOWS = {"kind": "processing_window", "size_s": 1, "aggregates": {"events": {"function": "count"}}}


def entry(strategy: StrategyName) -> JobEntry:
    """A job that can be moved so."""
    changes = {"operator": WINDOWS} if strategy is StrategyName.PARALLEL else {}
    spec = JobSpec.model_validate({**EXAMPLE_SPEC, **changes})
    return JobEntry(spec=spec, site="jfk", epoch=1, inputs=[INPUT], output=OUTPUT)


class Killed(BaseException):
    """Raised for SIGKILL of the coordinator."""


def migration(strategy: StrategyName) -> OperationRecord:
    before = entry(strategy)
    epoch = before.next_epoch(interim=strategies()[strategy].interim_epoch)
    generation = 2 if strategies()[strategy].empty_beginning else 1
    return OperationRecord(
        id="5f0c9a7be210",
        command="c1",
        kind=OperationKind.MIGRATE,
        job=JOB,
        strategy=strategy,
        before=before,
        after=before.model_copy(update={"site": "cloud", "epoch": epoch, "generation": generation}),
        old_epoch=1,
        new_epoch=epoch,
        hold_s=0,
        begun_at=SimulatedClock().now(),
    )


@dataclass
class Trial:
    """A migration on a simulated mesh, whose abort is asked for at one of its messages."""

    record: OperationRecord
    abort_at: str = ""
    """Step whose command is under way when the abort is asked for."""
    carried_out: bool = True
    """True if that command was executed before; its answer never comes while an abort is possible."""
    requests: Requests = field(default_factory=Requests)
    sent: list[str] = field(default_factory=list)
    kill_after: str = ""

    def __post_init__(self) -> None:
        before = self.record.entry_before
        self.clock = SimulatedClock()
        self.mesh = SimulatedMesh(self.clock, "jfk", "cloud", "out")
        self.ledger = MemoryLedger(jobs={JOB: before}, around=self.moment)
        self.mesh.accept(JOB, 1, OUTPUT, owner="jfk")
        self.mesh.handle(StartJob(id="s0", site="jfk", operation="o0", assignment=before.assignment()))
        self.mesh.work(5)
        self.mesh.settle_down()
        self.ledger.accept(self.record)

    def moment(self, moment: str) -> None:
        if moment == self.kill_after:
            self.kill_after = ""
            raise Killed(moment)

    async def send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        step = command.id.removeprefix(f"{self.record.id}-")
        self.sent.append(step)
        here = step == self.abort_at
        if here:
            self.requests.abort.set()
        if here and not self.carried_out:
            await asyncio.Event().wait()
        answer = self.mesh.handle(command)
        self.mesh.check(JOB)
        self.mesh.work()
        self.mesh.check(JOB)
        if here and self.can_go_back():
            await asyncio.Event().wait()
        return answer

    def can_go_back(self) -> bool:
        steps = table_of(self.record).steps
        last = next(s.name for s in steps if s.point_of_no_return)
        return last not in {e.step for e in self.journal() if e.phase == StepPhase.CONFIRMED}

    def journal(self) -> list[JournalEntry]:
        return [JournalEntry.model_validate_json(line) for line in self.ledger.journals[self.record.id]]

    async def publish(self, event: Event) -> None:
        pass

    async def run(self) -> OperationRecord:
        runner = Runner(self.ledger, self.send, self.publish, self.clock)
        async with asyncio.timeout(WITHIN_S):
            return await runner.run(self.record.id, self.requests)

    def check_rolled_back(self, record: OperationRecord) -> None:
        assert record.state is OperationState.ROLLED_BACK
        assert ABORTED in record.note
        assert JOB not in self.ledger.locks
        self.check_end("jfk")

    def check_end(self, owner: str) -> None:
        """Check that the job runs there, that it alone may publish, and that every event counts once."""
        self.mesh.work()
        self.mesh.settle_down(self.mesh.stored)
        self.mesh.check(JOB)
        self.mesh.check_complete(JOB)
        assert self.mesh.owners(JOB) == [owner]
        assert self.ledger.jobs[JOB].site == owner


def steps(strategy: StrategyName, *, beyond: bool) -> list[str]:
    """Names of steps with a message that begin before, or after, the point of no return is confirmed."""
    table = table_of(migration(strategy)).steps
    last = next(i for i, step in enumerate(table) if step.point_of_no_return)
    chosen = table[last + 1 :] if beyond else table[: last + 1]
    return [step.name for step in chosen if step.actor != "coordinator"]


RETURNABLE = [(s, step) for s in strategies() for step in steps(s, beyond=False)]
BEYOND = [(s, step) for s in strategies() for step in steps(s, beyond=True)]


@pytest.mark.parametrize("carried_out", [False, True], ids=["not-done", "done"])
@pytest.mark.parametrize(("strategy", "step"), RETURNABLE)
async def test_migration_when_aborted_during_a_step_then_does_not_wait_for_it_and_goes_back(
    strategy: StrategyName, step: str, carried_out: bool
) -> None:
    trial = Trial(migration(strategy), abort_at=step, carried_out=carried_out)
    trial.check_rolled_back(await trial.run())
    failed = [(e.step, e.detail["reason"]) for e in trial.journal() if e.phase == StepPhase.FAILED]
    assert failed[0] == (step, ABORTED)
    assert {reason for _, reason in failed} == {ABORTED}


@pytest.mark.parametrize(("strategy", "step"), BEYOND)
async def test_migration_when_aborted_past_the_point_of_no_return_then_is_completed(
    strategy: StrategyName, step: str
) -> None:
    trial = Trial(migration(strategy), abort_at=step)
    assert (await trial.run()).state is OperationState.COMPLETED
    trial.check_end("cloud")


async def test_migration_when_aborted_before_its_first_step_then_no_one_is_told_anything() -> None:
    trial = Trial(migration(StrategyName.GENERAL))
    trial.requests.abort.set()
    trial.check_rolled_back(await trial.run())
    assert trial.sent == []


@pytest.mark.parametrize("step", steps(StrategyName.GENERAL, beyond=False)[:-1])
async def test_migration_when_coordinator_dies_with_the_abort_unheeded_then_the_next_one_heeds_it(
    step: str,
) -> None:
    trial = Trial(migration(StrategyName.GENERAL), kill_after=f"after {step} confirmed")
    with pytest.raises(Killed):
        await trial.run()
    trial.requests.abort.set()
    trial.check_rolled_back(await trial.run())


async def test_migration_when_coordinator_dies_while_going_back_then_the_next_one_goes_back() -> None:
    killed = "after pause-transfer compensating"
    trial = Trial(migration(StrategyName.GENERAL), abort_at="pause-transfer", kill_after=killed)
    with pytest.raises(Killed):
        await trial.run()
    trial.check_rolled_back(await trial.run())


def refusal(record: OperationRecord, *entries: JournalEntry) -> TowpathError:
    with pytest.raises(TowpathError) as refused:
        check_abortable(record, list(entries))
    return refused.value


def test_abort_when_the_point_of_no_return_is_confirmed_then_says_how_to_come_back() -> None:
    record = migration(StrategyName.GENERAL)
    resumed = JournalEntry(step="resume", phase=StepPhase.CONFIRMED, at=record.begun_at, detail={})
    detail = refusal(record, resumed).detail
    assert (detail.code, detail.field, detail.value) == (ErrorCode.NOT_ALLOWED, "operation", record.id)
    assert detail.allowed is not None
    assert f"towpath migrate {JOB} --to jfk" in detail.allowed


@pytest.mark.parametrize("state", [OperationState.COMPLETED, OperationState.ROLLED_BACK])
def test_abort_when_the_migration_has_ended_by_itself_then_is_refused(state: OperationState) -> None:
    record = migration(StrategyName.GENERAL).model_copy(update={"state": state})
    assert refusal(record).detail.code is ErrorCode.NOT_ALLOWED


def test_abort_when_the_operation_is_no_migration_then_is_refused() -> None:
    record = migration(StrategyName.GENERAL).model_copy(update={"kind": OperationKind.UPDATE})
    detail = refusal(record).detail
    assert (detail.code, detail.allowed) == (ErrorCode.NOT_ALLOWED, "a migration")


def test_abort_when_repeated_after_the_rollback_then_is_answered_as_before() -> None:
    update = {"state": OperationState.ROLLED_BACK, "note": f"resume: {ABORTED}"}
    record = migration(StrategyName.GENERAL).model_copy(update=update)
    check_abortable(record, [])
    assert rolled_back(record).state is OperationState.ROLLED_BACK


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (OperationState.COMPLETED, ErrorCode.NOT_ALLOWED),
        (OperationState.NEEDS_OPERATOR, ErrorCode.FAILED),
    ],
)
def test_abort_when_it_came_too_late_or_could_not_be_carried_out_then_says_so(
    state: OperationState, code: ErrorCode
) -> None:
    with pytest.raises(TowpathError) as refused:
        rolled_back(migration(StrategyName.GENERAL).model_copy(update={"state": state}))
    assert refused.value.detail.code is code
