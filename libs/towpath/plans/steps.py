"""Steps that bring one device from what it has to what it must have. Pure functions.

A step is repeated under its identifier until its outcome is known, also when a newer version wants something
else. So a device that remembers identifiers does nothing twice, whatever is lost, repeated or late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from towpath.contracts.gateway import Code
from towpath.contracts.plan import DeployableOperation, Package, TaskKind
from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.devices import Answer, Verb
from towpath.plans.records import DeviceFailure, DeviceRecord, Installed, Step, StepTask

Wanted = Mapping[str, DeployableOperation]
"""Application → operation that a device must run."""


def wanted_by_device(version: PlanVersion) -> dict[str, dict[str, DeployableOperation]]:
    """Return what each device must run; nothing for devices that only lose applications."""
    wanted: dict[str, dict[str, DeployableOperation]] = {d: {} for wave in version.waves for d in wave}
    for operation in version.operations:
        if operation.kind is not TaskKind.UNINSTALL:
            for device in operation.devices:
                wanted[device][operation.application] = operation
    return wanted


def open_steps(record: DeviceRecord, wanted: Wanted, version: PlanVersion) -> list[Step]:
    """Return the next step of each application that is not as wanted, in the order in which to try them.

    Applications that go come first, by falling order number. Those that come follow by order number.
    """
    gone = {app: there for app, there in record.applications.items() if app not in wanted}
    steps: list[Step] = []
    for app, there in sorted(gone.items(), key=lambda found: (-found[1].order, found[0])):
        if task := _removal(there):
            steps.append(_step(version, record.device, app, there, task, there.package))
    for app, operation in sorted(wanted.items(), key=lambda found: (found[1].order, found[0])):
        there = record.applications.get(app)
        if task := _change(there, operation):
            package = there.package if there and task is StepTask.UNINSTALL else operation.package
            steps.append(_step(version, record.device, app, operation, task, package))
    return steps


def _removal(there: Installed) -> StepTask | None:
    if there.package is None:
        return None
    return StepTask.STOP if there.started else StepTask.UNINSTALL


def _change(there: Installed | None, wanted: DeployableOperation) -> StepTask | None:
    have = there.package if there else None
    if there and have and not is_same(have, wanted.package):
        if there.started:
            return StepTask.STOP
        if wanted.package is None or wanted.package.name != have.name:
            return StepTask.UNINSTALL
    if wanted.package and not is_same(have, wanted.package):
        return StepTask.INSTALL
    if (there.arguments if there else {}) != wanted.arguments:
        return StepTask.CONFIGURE
    return StepTask.START if wanted.package and not (there and there.started) else None


def is_same(one: Package | None, other: Package | None) -> bool:
    """Return True if two packages have the same content: the address may differ."""
    if one is None or other is None:
        return one is other
    return (one.name, one.version, one.sha256) == (other.name, other.version, other.sha256)


def request_identifier(
    version: PlanVersion, device: str, operation: str, application: str, task: StepTask
) -> str:
    """Return the identifier of a step. A controller that starts again makes the same one.

    The version's command is part of it: a plan whose history was lost begins again with version 1.
    """
    parts = (version.plan, str(version.version), version.command, device, operation, application, task)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _step(
    version: PlanVersion,
    device: str,
    application: str,
    source: DeployableOperation | Installed,
    task: StepTask,
    package: Package | None,
) -> Step:
    return Step(
        request_id=request_identifier(version, device, source.operation, application, task),
        version=version.version,
        operation=source.operation,
        application=application,
        order=source.order,
        task=task,
        package=package if task in (StepTask.INSTALL, StepTask.UNINSTALL) else None,
        arguments=source.arguments or {} if task is StepTask.CONFIGURE else {},
    )


def request_of(step: Step) -> tuple[Verb, str, dict[str, Any]]:
    """Return verb, resource and body of a step's request."""
    match step.task:
        case StepTask.INSTALL:
            package = step.package.model_dump(exclude_none=True) if step.package else {}
            return Verb.EXEC, "packages/install", package
        case StepTask.UNINSTALL:
            return Verb.EXEC, "packages/uninstall", {"name": step.package.name if step.package else ""}
        case StepTask.CONFIGURE:
            return Verb.PUT, f"configurations/{step.application}", {"properties": step.arguments}
        case StepTask.START | StepTask.STOP:
            return Verb.EXEC, f"applications/{step.task}", {"name": step.application}


def answered(record: DeviceRecord, request_id: str, answer: Answer) -> DeviceRecord:
    """Return the record after an answer. An answer to another step is too late, and changes nothing."""
    step = record.pending
    if step is None or step.request_id != request_id:
        return record
    present = {"offline": False, "not_now": answer.code == Code.NOT_NOW}
    if answer.code in (Code.ACCEPTED, Code.NOT_NOW):
        return record.changed(**present)
    if answer.code < Code.BAD_REQUEST or _is_gone(step, answer):
        applications = _after(step, record.applications)
        return record.changed(**present, pending=None, applications=applications)
    failure = DeviceFailure(
        version=step.version,
        operation=step.operation,
        task=step.task,
        code=answer.code,
        message=str(answer.body.get("message") or answer.body.get("error") or "no reason given"),
    )
    return record.changed(**present, pending=None, failure=failure)


def _is_gone(step: Step, answer: Answer) -> bool:
    """True if the device does not have what it was asked to take away."""
    return answer.code == Code.NOT_FOUND and step.task in (StepTask.STOP, StepTask.UNINSTALL)


def _after(step: Step, applications: Mapping[str, Installed]) -> dict[str, Installed]:
    there = applications.get(step.application)
    others = {app: other for app, other in applications.items() if app != step.application}
    if step.task is StepTask.UNINSTALL:
        return others
    had = there or Installed(operation=step.operation, order=step.order)
    now: dict[str, Any] = {"operation": step.operation, "order": step.order}
    match step.task:
        case StepTask.INSTALL:
            # Devices may keep the old arguments or forget them: they are sent again.
            now |= {"package": step.package, "arguments": None if had.arguments else {}, "started": False}
        case StepTask.CONFIGURE:
            now["arguments"] = step.arguments
        case StepTask.START:
            now["started"] = True
        case StepTask.STOP:
            now["started"] = False
    return {**others, step.application: had.model_copy(update=now)}
