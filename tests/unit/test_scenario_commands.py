"""Operations of a timeline: requested again until one is accepted or completes, and reported in the end."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from towpath.contracts.commands import MigrateJob, OperationState, OperationView, ShowOperation
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.pipeline import ApplyState, PipelineSpec
from towpath.contracts.pipeline_commands import ApplyPipeline
from towpath.contracts.scenario import STEP_ACTIONS, ProcessRun, Step
from towpath.contracts.scenario_load import StandardJob
from towpath.lab.scenarios import commands
from towpath.lab.scenarios.commands import ACTIONS, BegunOperation, Commands
from towpath.mesh.home import Home

AT = "2026-01-01T00:00:00Z"


class ScriptedCoordinator:
    """Answers each migration with the next entry: a refusal, or the state in which it ends."""

    def __init__(self, *script: ErrorCode | OperationState) -> None:
        self.script = list(script)
        self.states: dict[str, OperationState] = {}

    async def send(self, command: MigrateJob, *, attempt_s: float = 1.0) -> Any:
        entry = self.script.pop(0)
        if isinstance(entry, ErrorCode):
            raise TowpathError(entry, "not now")
        operation = f"m{len(self.states) + 1}"
        self.states[operation] = entry
        return SimpleNamespace(operation=operation, kind="fail-over")

    async def request(self, command: ShowOperation, **_: Any) -> OperationView:
        return OperationView.model_validate(
            {
                "operation": command.operation,
                "kind": "migrate",
                "job": "j",
                "state": self.states[command.operation],
                "begun_at": AT,
            }
        )


def commands_to(coordinator: ScriptedCoordinator, monkeypatch: pytest.MonkeyPatch) -> Commands:
    monkeypatch.setattr(commands, "AGAIN_S", 0.0)
    stage: Any = SimpleNamespace(bus=coordinator)
    nothing: Any = None
    return Commands(stage, coordinator, nothing, nothing, AsyncExitStack())  # type: ignore[arg-type]


def move(**more: Any) -> Step:
    return Step.model_validate({"at": 0, "migrate": {"job": "j", "to": "cloud", **more}})


async def test_migration_when_refused_and_rolled_back_then_is_requested_until_one_completes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states = (ErrorCode.SITE_DOWN, OperationState.ROLLED_BACK, ErrorCode.BUSY, OperationState.COMPLETED)
    found = commands_to(ScriptedCoordinator(*states), monkeypatch)

    await found.carry_out(move(retry_within_s=60))

    assert [begun.operation for begun in found.begun] == ["m2"]


@pytest.mark.parametrize("end", [ErrorCode.ALREADY_THERE, OperationState.NEEDS_OPERATOR])
async def test_migration_when_another_try_cannot_help_then_the_step_fails(
    monkeypatch: pytest.MonkeyPatch, end: ErrorCode | OperationState
) -> None:
    found = commands_to(ScriptedCoordinator(end), monkeypatch)

    with pytest.raises(TowpathError):
        await found.carry_out(move(retry_within_s=60))


async def test_migration_when_it_is_not_retried_then_its_end_is_not_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = commands_to(ScriptedCoordinator(OperationState.RUNNING), monkeypatch)

    await found.carry_out(move())

    assert [begun.operation for begun in found.begun] == ["m1"]


@pytest.mark.parametrize(
    ("refusals", "deploys"), [([ErrorCode.FAILED], True), ([ErrorCode.FAILED] * 2, False)]
)
async def test_deployment_when_the_engine_was_still_starting_then_is_asked_for_once_more(
    monkeypatch: pytest.MonkeyPatch, refusals: list[ErrorCode], deploys: bool
) -> None:
    found = commands_to(ScriptedCoordinator(*refusals, OperationState.COMPLETED), monkeypatch)
    found.sampler = SimpleNamespace(jobs={})  # type: ignore[assignment]

    async def observed(spec: JobSpec) -> str:
        return spec.name

    monkeypatch.setattr(found, "_observe", observed)
    job = StandardJob(name="j", workload="windows", site="jfk")
    if deploys:
        assert await found.deploy(job) == "j"
    else:
        with pytest.raises(TowpathError):
            await found.deploy(job)


async def test_failover_when_its_site_still_answers_then_is_asked_for_until_it_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "LOOK_EVERY_S", 0.0)
    coordinator = ScriptedCoordinator(ErrorCode.NOT_ALLOWED, ErrorCode.NOT_ALLOWED, OperationState.RUNNING)
    found = commands_to(coordinator, monkeypatch)

    await found.carry_out(Step.model_validate({"at": 0, "fail_over": {"job": "j"}}))

    assert found.begun == [BegunOperation("m1", "j", "fail-over")]


async def test_upgrade_when_it_is_interrupted_then_is_called_again_until_it_ends_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commands, "AGAIN_S", 0.0)
    called: list[list[str]] = []

    async def run(program: ProcessRun) -> None:
        called.append(program.arguments)
        if len(called) < 3:
            raise TowpathError(ErrorCode.FAILED, "ended with code 1: rolled back")

    monkeypatch.setattr(commands, "run_program", run)
    found = commands_to(ScriptedCoordinator(), monkeypatch)
    found.stage = SimpleNamespace(home=Home(Path("home")))  # type: ignore[assignment]

    await found.carry_out(Step.model_validate({"at": 0, "upgrade": {"site": "jfk", "to": "cloud"}}))

    assert len(called) == 3
    assert called[0][3:8] == ["home", "upgrade", "jfk", "--to", "cloud"]


async def test_pipeline_when_a_change_of_it_is_undone_then_is_applied_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied: list[str] = []

    async def send(command: ApplyPipeline) -> SimpleNamespace:
        applied.append(command.id)
        state = ApplyState.COMPLETED if len(applied) == 2 else ApplyState.FAILED
        return SimpleNamespace(state=state)

    found = commands_to(ScriptedCoordinator(), monkeypatch)
    monkeypatch.setattr(found.restoration, "send", send)

    await found.apply(PipelineSpec(name="composed", jobs=[]))

    assert len(set(applied)) == 2, "each time under a name of its own"


def test_step_when_of_any_kind_then_can_be_executed_and_described() -> None:
    assert tuple(ACTIONS) == STEP_ACTIONS
