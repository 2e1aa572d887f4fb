"""Steps that bring one device from what it has to what it must have. Pure functions.

A step is repeated under its identifier until its outcome is known, also when a newer version wants something
else. So a device that remembers identifiers does nothing twice, whatever is lost, repeated or late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

from towpath.contracts.device_commands import DeviceAnswer
from towpath.contracts.gateway import CONFIGURATIONS, EXEC, PACKAGES, PUT, Code
from towpath.contracts.plan import DeployableOperation, Package, TaskKind
from towpath.contracts.plan_rollout import PlanVersion
from towpath.plans.devices import DeviceRequest
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
        steps.append(_step(version, record.device, app, there, StepTask.UNINSTALL, there.package))
    for app, operation in sorted(wanted.items(), key=lambda found: (found[1].order, found[0])):
        package, there = operation.package, record.applications.get(app)
        if package is None:
            continue  # It is there already, and no affair of plans.
        if there is None or not _is_same(there.package, package):
            steps.append(_step(version, record.device, app, operation, StepTask.INSTALL, package))
        elif there.arguments != operation.arguments:
            steps.append(_step(version, record.device, app, operation, StepTask.CONFIGURE, package))
    return steps


def _is_same(one: Package, other: Package) -> bool:
    """Return True if two packages have the same content: the address may differ."""
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
    package: Package,
) -> Step:
    return Step(
        request_id=request_identifier(version, device, source.operation, application, task),
        version=version.version,
        operation=source.operation,
        application=application,
        order=source.order,
        task=task,
        package=package,
        arguments={} if task is StepTask.UNINSTALL else source.arguments,
    )


def request_of(step: Step) -> DeviceRequest:
    """Return the request of a step."""
    match step.task:
        case StepTask.INSTALL:
            wanted = {"url", "sha256", "version", "signature"}
            given = step.package.model_dump(include=wanted, exclude_none=True)
            body = {"name": step.application, **given, "properties": step.arguments, "replace": True}
            return DeviceRequest(PACKAGES, EXEC, "packages/install", body)
        case StepTask.UNINSTALL:
            return DeviceRequest(PACKAGES, EXEC, "packages/uninstall", {"name": step.application})
        case StepTask.CONFIGURE:
            body = {"properties": step.arguments, "replace": True}
            return DeviceRequest(CONFIGURATIONS, PUT, f"configurations/{step.application}", body)


def answered(
    record: DeviceRecord,
    request_id: str,
    answer: DeviceAnswer,
    asked_at: datetime,
    at: datetime,
    step_limit_s: float,
) -> DeviceRecord:
    """Return the record after an answer. An answer to another step is too late, and changes nothing.

    A device that says "not now", or works on the step for longer than `step_limit_s`, is deferred.
    """
    step = record.pending
    if step is None or step.request_id != request_id:
        return record
    accepted_at = (record.accepted_at or asked_at) if answer.code == Code.ACCEPTED else None
    is_overdue = accepted_at is not None and (at - accepted_at).total_seconds() > step_limit_s
    is_deferred = answer.code == Code.NOT_NOW or is_overdue
    present = {
        "offline": False,
        "not_now": answer.code == Code.NOT_NOW,
        "accepted_at": accepted_at,
        "deferred_since": (record.deferred_since or at) if is_deferred else None,
    }
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
        message=answer.reason(),
    )
    return record.changed(**present, pending=None, failure=failure)


def _is_gone(step: Step, answer: DeviceAnswer) -> bool:
    """True if the device does not have what it was asked to take away."""
    return answer.code == Code.NOT_FOUND and step.task is StepTask.UNINSTALL


def _after(step: Step, applications: Mapping[str, Installed]) -> dict[str, Installed]:
    others = {app: other for app, other in applications.items() if app != step.application}
    if step.task is StepTask.UNINSTALL:
        return others
    now = Installed(
        operation=step.operation, order=step.order, package=step.package, arguments=step.arguments
    )
    return {**others, step.application: now}
