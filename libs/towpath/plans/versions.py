"""Make a new version of a plan: which devices it concerns, and in which wave each begins."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.plan import DeployableOperation, Package, Rollout, TaskKind
from towpath.contracts.plan_rollout import PlanVersion, VersionKind
from towpath.plans.order import listed
from towpath.plans.records import DeviceRecord, Installed
from towpath.plans.steps import open_steps, wanted_by_device


def new_version(
    plan: str,
    number: int,
    operations: Sequence[DeployableOperation],
    rollout: Rollout,
    devices: Mapping[str, DeviceRecord],
    *,
    sites: Mapping[str, str],
    command: str,
    asked_by: str | None = None,
    at: datetime,
    kind: VersionKind = VersionKind.APPLY,
    again: int | None = None,
) -> tuple[PlanVersion, list[DeviceRecord]]:
    """Return the version, and the records of devices that are new or must lose what no version gave them.

    `devices` are those that the plan has concerned before, `sites` the sites of those that it names now.
    """
    fresh = _fresh_records(operations, devices, sites)
    known = {**devices, **{record.device: record for record in fresh}}
    one_wave = PlanVersion(
        plan=plan,
        version=number,
        kind=kind,
        again=again,
        command=command,
        asked_by=asked_by,
        at=at,
        operations=[*operations],
        rollout=rollout,
        waves=[sorted(known)],
    )
    if not one_wave.stops:
        return one_wave, fresh
    return one_wave.model_copy(update={"waves": _waves(one_wave, known)}), fresh


def configured(
    operations: Sequence[DeployableOperation], before: PlanVersion | None
) -> list[DeployableOperation]:
    """Return the operations, where those that configure have the package of the version before.

    So a device that was away also catches up with the installation. Raises `TowpathError` (not allowed) for
    devices that never had the application.
    """
    found: list[DeployableOperation] = []
    for operation in operations:
        if operation.kind is TaskKind.CONFIGURE:
            earlier = [
                other
                for other in (before.operations if before else ())
                if other.application == operation.application and other.kind is not TaskKind.UNINSTALL
            ]
            lacking = set(operation.devices).difference(*(other.devices for other in earlier))
            if lacking:
                raise TowpathError(
                    ErrorCode.NOT_ALLOWED,
                    f"{operation.application} is not installed on {listed(sorted(lacking))}",
                    field=f"operations.{operation.operation}.executes.kind",
                    value=operation.kind.value,
                    allowed="install it first",
                )
            update = {"kind": earlier[0].kind, "package": earlier[0].package}
            operation = operation.model_copy(update=update)
        found.append(operation)
    return found


def _fresh_records(
    operations: Sequence[DeployableOperation],
    devices: Mapping[str, DeviceRecord],
    sites: Mapping[str, str],
) -> list[DeviceRecord]:
    """Return records to write: of new devices, and of those that must lose what no version gave them."""
    fresh: dict[str, DeviceRecord] = {}
    for operation in operations:
        for device in operation.devices:
            record = fresh.get(device) or devices.get(device)
            if record is None:
                record = DeviceRecord(device=device, site=sites[device])
            elif record.site != sites.get(device, record.site):
                record = record.changed(site=sites[device])
            if operation.kind is TaskKind.UNINSTALL and operation.application not in record.applications:
                there = Installed(
                    operation=operation.operation,
                    order=operation.order,
                    package=operation.package or Package(name=operation.application),
                )
                record = record.changed(applications={**record.applications, operation.application: there})
            if device not in devices or record is not devices[device]:
                fresh[device] = record
    return [*fresh.values()]


def _waves(version: PlanVersion, devices: Mapping[str, DeviceRecord]) -> list[list[str]]:
    """Return the devices of each wave. Each kind of change is tried by the first wave already.

    Devices that need no change come last. So do those that lose an application which others, that lose
    theirs as well, still use.
    """
    wanted = wanted_by_device(version)
    kinds: dict[tuple[object, ...], list[str]] = defaultdict(list)
    last: list[str] = []
    orders = [there.order for d, r in devices.items() for there in _leaving(r, wanted[d])]
    for device, record in sorted(devices.items()):
        steps = open_steps(record, wanted[device], version)
        if not steps or any(there.order < max(orders) for there in _leaving(record, wanted[device])):
            last.append(device)
        else:
            kinds[tuple((step.operation, step.task) for step in steps)].append(device)
    waves: list[list[str]] = []
    begun = 0.0
    for share in version.rollout.waves:
        waves.append(sorted(d for group in kinds.values() for d in _between(group, begun, share)))
        begun = share
    waves[-1] += last
    # A wave may be empty where there are few devices.
    return [wave for wave in waves if wave] or [[]]


def _leaving(record: DeviceRecord, wanted: Mapping[str, object]) -> list[Installed]:
    return [there for app, there in record.applications.items() if app not in wanted]


def _between(group: Sequence[str], begun: float, share: float) -> Sequence[str]:
    return group[math.ceil(begun * len(group) - 1e-9) : math.ceil(share * len(group) - 1e-9)]
