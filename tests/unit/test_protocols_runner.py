"""Every table × every step × every fault: the operation ends, and nothing is lost or published twice."""

from __future__ import annotations

import math
from typing import Any

import pytest
from operation_trial import EVERY_STEP, JOB, OPERATIONS, Killed, Trial, operation, succeeded

from towpath.agent.containment import FETCH_ANSWER_S
from towpath.contracts.commands import OperationState
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.events import OperationBegun, OperationEnded, StepDone
from towpath.contracts.message import Model
from towpath.contracts.migration import StepCommand
from towpath.protocols.record import ENDED
from towpath.protocols.runner import Runner, Superseded
from towpath.protocols.shared_steps import FETCH_S
from towpath.protocols.table import table_of


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
        assert (JOB in trial.mesh.outputs) is (name != "remove-and-purge")
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
@pytest.mark.parametrize("name", ["general", "restart", "parallel", "handover", "update", "deploy", "remove"])
async def test_coordinator_when_killed_while_undoing_then_the_next_one_undoes(
    name: str, phase: str, when: str
) -> None:
    failing = [s for s in table_of(operation(name)).steps if s.actor != "coordinator"]
    reversible = next(s for s in reversed(failing) if s.name not in ("observe",) and s.deadline_s >= 15)
    failing_step = {
        "general": "resume", "restart": "resume", "remove": "stop-job",
        "parallel": "await-consistency", "handover": "await-consistency",
    }  # fmt: skip
    step = failing_step.get(name, reversible.name)
    trial = Trial(name)
    trial.refused = {f"{trial.record.id}-{step}"}
    undone_step = {
        "update": "set-epoch", "deploy": "set-epoch", "remove": "stop-job",
        "parallel": "divert", "handover": "open-shadow",
    }  # fmt: skip
    undone = undone_step.get(name, "pause-transfer")
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
    assert confirmed == [step.name for step in table_of(trial.record).steps]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_begin_when_told_then_says_what_the_job_reads_and_writes(name: str) -> None:
    trial = Trial(name)
    await trial.finish()
    begun = trial.events[0]
    job = trial.record.after or trial.record.before
    assert isinstance(begun, OperationBegun)
    assert job is not None
    assert (begun.inputs, begun.output) == (job.inputs, job.output)


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

    async def overtaken(command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        answer = await taken(command, deadline_s=deadline_s, attempt_s=attempt_s)
        if command.verb() == "pause-transfer":
            await first.run(trial.record.id)
        return answer

    second = Runner(trial.ledger, overtaken, trial.publish, trial.clock)
    with pytest.raises(Superseded):
        await second.run(trial.record.id)
    trial.check_end((await trial.ledger.load(trial.record.id))[0])


async def test_redirect_when_its_new_output_is_out_of_reach_then_the_old_job_does_not_wait_for_it() -> None:
    trial = Trial("redirect")
    trial.unheard = {f"{trial.record.id}-set-epoch", f"{trial.record.id}-set-epoch-undo"}
    record = await trial.finish()
    assert record.state is OperationState.ROLLED_BACK
    assert f"{trial.record.id}-set-epoch-undo" not in {command.id for command in trial.sent}
    trial.check_end(record)


class FetchingTrial(Trial):
    """A target without the image of its engine: it answers every five seconds that it is fetching it."""

    fetched_after_s = math.inf
    dead_after_s = math.inf

    async def send(self, command: StepCommand[Any], *, deadline_s: float, attempt_s: float) -> Model:
        asks_for_image = command.verb() in ("assign-role", "check-spec") and command.addressee == "cloud"
        if self.clock.elapsed_s >= self.dead_after_s:
            self.dead = {"cloud"}
        elif asks_for_image and self.clock.elapsed_s < self.fetched_after_s:
            self.clock.elapsed_s += min(FETCH_ANSWER_S, deadline_s)
            if deadline_s < FETCH_ANSWER_S:
                raise TowpathError(ErrorCode.DEADLINE, "no answer in time")
            raise TowpathError(ErrorCode.BUSY, "cloud is fetching the image", field="container.image")
        return await super().send(command, deadline_s=deadline_s, attempt_s=attempt_s)


@pytest.mark.parametrize("name", ["general", "restart", "parallel", "handover"])
async def test_target_when_it_fetches_an_image_for_minutes_then_is_waited_for(name: str) -> None:
    trial = FetchingTrial(name)
    trial.fetched_after_s = 250.0
    record = await trial.finish()
    assert (record.note, succeeded(record)) == ("", True)
    assert trial.clock.elapsed_s >= 250
    trial.check_end(record)


async def test_target_when_the_image_does_not_come_then_the_operation_is_undone_and_says_why() -> None:
    trial = FetchingTrial("general")
    record = await trial.finish()
    assert record.state is OperationState.ROLLED_BACK
    assert "cloud is fetching the image" in record.note
    assert FETCH_S <= trial.clock.elapsed_s < FETCH_S + 60
    trial.check_end(record)


async def test_target_when_it_dies_while_it_fetches_then_is_given_up_as_soon_as_any_other() -> None:
    trial = FetchingTrial("general")
    trial.dead_after_s = 100.0
    record = await trial.finish()
    assert record.state is OperationState.ROLLED_BACK
    assert record.note.startswith("assign-target: no one answers; before: cloud is fetching the image")
    assert trial.clock.elapsed_s < 150
