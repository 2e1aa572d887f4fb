"""Steps of one device: identifiers, requests, and what an answer means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from towpath.contracts.device_commands import DeviceAnswer
from towpath.contracts.gateway import Code
from towpath.contracts.plan import DeployableOperation, Package, Rollout, TaskKind
from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.devices import DeviceRequest
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
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = Installed(operation="average", order=1, package=PACKAGE, arguments={"publish.rate": 5})


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
    record = DeviceRecord(device="pi-1", site="jfk", applications={"average": there} if there else {})
    return open_steps(record, wanted_by_device(made)["pi-1"], made)


def pending() -> DeviceRecord:
    (step,) = steps(None, version(OPERATION))
    return DeviceRecord(device="pi-1", site="jfk", pending=step)


@pytest.mark.parametrize(
    ("there", "operation", "task"),
    [
        (None, OPERATION, StepTask.INSTALL),
        (RUNNING, OPERATION, None),
        (RUNNING.model_copy(update={"arguments": {}}), OPERATION, StepTask.CONFIGURE),
        (RUNNING.model_copy(update={"package": Package(name="average.dp")}), OPERATION, StepTask.INSTALL),
        (RUNNING, None, StepTask.UNINSTALL),
        (None, OPERATION.model_copy(update={"package": None}), None),
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

    properties = {"properties": {"publish.rate": 5}, "replace": True}
    address = "https://packages.example.org/average.dp"
    assert made[StepTask.INSTALL] == DeviceRequest(
        "DEPLOY-V2",
        "EXEC",
        "packages/install",
        {"name": "average", "version": "1", "url": address, **properties},
    )
    assert made[StepTask.UNINSTALL] == DeviceRequest(
        "DEPLOY-V2", "EXEC", "packages/uninstall", {"name": "average"}
    )
    assert made[StepTask.CONFIGURE] == DeviceRequest("CONF-V1", "PUT", "configurations/average", properties)


def heard(record: DeviceRecord, code: int, body: Any = None, at: datetime = NOON) -> DeviceRecord:
    """Return the record after an answer that came 1 s after the request, where a step may take 60 s."""
    assert record.pending is not None
    asked_at = at - timedelta(seconds=1)
    return answered(record, record.pending.request_id, DeviceAnswer(code=code, body=body), asked_at, at, 60)


def test_answer_when_it_is_to_another_step_then_changes_nothing() -> None:
    record = pending()

    assert answered(record, "another", DeviceAnswer(code=Code.OK), NOON, NOON, 60) is record


def test_answer_when_not_now_then_the_step_stays_pending_and_the_device_is_deferred() -> None:
    record = pending()

    later = heard(heard(record, Code.NOT_NOW), Code.NOT_NOW, at=NOON + timedelta(hours=1))

    assert (later.pending, later.not_now, later.deferred_since) == (record.pending, True, NOON)


def test_answer_when_work_goes_on_after_the_limit_then_the_device_is_deferred_until_it_has_an_outcome() -> (
    None
):
    working = heard(pending(), Code.ACCEPTED)
    just = heard(working, Code.ACCEPTED, at=NOON + timedelta(seconds=59))
    over = heard(just, Code.ACCEPTED, at=NOON + timedelta(seconds=60))

    assert (working.is_away, just.is_away, over.deferred_since) == (
        False,
        False,
        NOON + timedelta(seconds=60),
    )
    assert not heard(over, Code.OK).is_away


def test_answer_when_a_deferred_device_begins_then_its_time_begins_with_it() -> None:
    begun = heard(heard(pending(), Code.NOT_NOW), Code.ACCEPTED, at=NOON + timedelta(hours=1))

    assert (begun.is_away, begun.accepted_at) == (False, NOON + timedelta(minutes=59, seconds=59))


@pytest.mark.parametrize("code", [Code.BAD_REQUEST, Code.NOT_FOUND, Code.CONFLICT, Code.FAILED])
def test_answer_when_it_refuses_then_the_failure_says_what_and_why(code: int) -> None:
    failed = heard(pending(), code, {"errors": [{"message": "disk full"}]})

    assert failed.failure is not None
    assert (failed.failure.task, failed.failure.code, failed.failure.message) == (
        StepTask.INSTALL,
        code,
        "disk full",
    )
    assert (failed.pending, failed.applications) == (None, {})


def test_answer_when_what_goes_is_not_there_then_it_counts_as_gone() -> None:
    (uninstall,) = steps(RUNNING, version())
    record = DeviceRecord(device="pi-1", site="jfk", applications={"average": RUNNING}, pending=uninstall)

    after = heard(record, Code.NOT_FOUND)

    assert after.failure is None
    assert after.applications == {}
