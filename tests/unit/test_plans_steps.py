"""Steps of one device: identifiers, requests, and what an answer means."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.contracts.gateway import Code
from towpath.contracts.plan import DeployableOperation, Package, Rollout, TaskKind
from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.devices import Answer, Verb
from towpath.plans.records import DeviceRecord, Installed, StepTask
from towpath.plans.steps import answered, open_steps, request_of, wanted_by_device

PACKAGE = Package(name="average.dp", version="1", url="https://packages.example.org/average.dp")
OPERATION = DeployableOperation(
    operation="average",
    application="average",
    kind=TaskKind.INSTALL,
    order=1,
    package=PACKAGE,
    arguments={"publish.rate": 5},
    devices=["pi-1"],
)
RUNNING = Installed(
    operation="average", order=1, package=PACKAGE, arguments={"publish.rate": 5}, started=True
)


def version(*operations: DeployableOperation, number: int = 1, command: str = "c") -> PlanVersion:
    return PlanVersion(
        plan="p",
        version=number,
        command=command,
        at=datetime(2026, 1, 1, tzinfo=UTC),
        operations=[*operations],
        rollout=Rollout(),
        waves=[["pi-1"]],
    )


def steps(there: Installed | None, made: PlanVersion) -> list[Any]:
    record = DeviceRecord(device="pi-1", applications={"average": there} if there else {})
    return open_steps(record, wanted_by_device(made)["pi-1"], made)


def pending() -> DeviceRecord:
    (step,) = steps(None, version(OPERATION))
    return DeviceRecord(device="pi-1", pending=step)


@pytest.mark.parametrize(
    ("there", "operation", "task"),
    [
        (None, OPERATION, StepTask.INSTALL),
        (RUNNING, OPERATION, None),
        (RUNNING.model_copy(update={"started": False}), OPERATION, StepTask.START),
        (RUNNING.model_copy(update={"arguments": {}}), OPERATION, StepTask.CONFIGURE),
        (RUNNING.model_copy(update={"package": Package(name="average.dp")}), OPERATION, StepTask.STOP),
        (
            RUNNING.model_copy(update={"package": Package(name="old.dp"), "started": False}),
            OPERATION,
            StepTask.UNINSTALL,
        ),
        (RUNNING, None, StepTask.STOP),
        (RUNNING.model_copy(update={"started": False}), None, StepTask.UNINSTALL),
        (None, OPERATION.model_copy(update={"package": None}), StepTask.CONFIGURE),
        (None, OPERATION.model_copy(update={"package": None, "arguments": {}}), None),
        (RUNNING.model_copy(update={"package": None}), None, None),
    ],
)
def test_application_when_it_is_not_as_wanted_then_one_step_is_next(
    there: Installed | None, operation: DeployableOperation | None, task: StepTask | None
) -> None:
    made = version(*([operation] if operation else []))

    assert [step.task for step in steps(there, made)] == ([task] if task else [])


def test_identifier_when_made_again_then_is_the_same_and_another_for_each_version() -> None:
    made = [
        version(OPERATION),
        version(OPERATION),
        version(OPERATION, number=2),
        version(OPERATION, command="d"),
    ]

    identifiers = [steps(None, each)[0].request_id for each in made]

    assert identifiers[0] == identifiers[1]
    assert len({*identifiers}) == 3


def test_request_when_a_step_is_sent_then_has_the_resources_of_the_thesis() -> None:
    (install,) = steps(None, version(OPERATION))
    made = {task: request_of(install.model_copy(update={"task": task})) for task in StepTask}

    assert made[StepTask.INSTALL] == (
        Verb.EXEC,
        "packages/install",
        {"name": "average.dp", "version": "1", "url": "https://packages.example.org/average.dp"},
    )
    assert made[StepTask.UNINSTALL] == (Verb.EXEC, "packages/uninstall", {"name": "average.dp"})
    assert made[StepTask.START] == (Verb.EXEC, "applications/start", {"name": "average"})
    assert made[StepTask.STOP] == (Verb.EXEC, "applications/stop", {"name": "average"})
    (configure,) = steps(RUNNING.model_copy(update={"arguments": {}}), version(OPERATION))
    assert request_of(configure) == (
        Verb.PUT,
        "configurations/average",
        {"properties": {"publish.rate": 5}},
    )


def test_answer_when_it_is_to_another_step_then_changes_nothing() -> None:
    record = pending()

    assert answered(record, "another", Answer(code=Code.OK)) is record


def test_answer_when_not_now_then_the_step_stays_pending() -> None:
    record = pending()
    assert record.pending is not None

    later = answered(record, record.pending.request_id, Answer(code=Code.NOT_NOW))

    assert (later.pending, later.not_now) == (record.pending, True)


@pytest.mark.parametrize("code", [Code.BAD_REQUEST, Code.NOT_FOUND, Code.CONFLICT, Code.FAILED])
def test_answer_when_it_refuses_then_the_failure_says_what_and_why(code: int) -> None:
    record = pending()
    assert record.pending is not None

    failed = answered(record, record.pending.request_id, Answer(code=code, body={"message": "disk full"}))

    assert failed.failure is not None
    assert (failed.failure.task, failed.failure.code, failed.failure.message) == (
        StepTask.INSTALL,
        code,
        "disk full",
    )
    assert (failed.pending, failed.applications) == (None, {})


def test_answer_when_what_goes_is_not_there_then_it_counts_as_gone() -> None:
    (stop,) = steps(RUNNING, version())
    record = DeviceRecord(device="pi-1", applications={"average": RUNNING}, pending=stop)

    after = answered(record, stop.request_id, Answer(code=Code.NOT_FOUND))

    assert after.failure is None
    assert after.applications["average"].started is False
