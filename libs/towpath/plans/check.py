"""Check a plan against the catalogue before anything is sent: all that is wrong, at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from towpath.contracts.device_catalogue import Device, DeviceCatalogue
from towpath.contracts.errors import ErrorCode
from towpath.contracts.plan import DeployableOperation, DeploymentPlan, Operation, Package, TaskKind
from towpath.contracts.quantity import bytes_text
from towpath.plans.cluster import with_cluster
from towpath.plans.findings import Findings
from towpath.plans.order import data_flow, find_cycle, listed, order_numbers, start_order
from towpath.plans.placing import placed
from towpath.plans.software import missing_software

_LACKING = {"memory": "memory", "cpus": "CPU"}


def check(plan: DeploymentPlan, catalogue: DeviceCatalogue) -> list[DeployableOperation]:
    """Return what each device would get, by order number.

    Raises `TowpathError` (invalid) with all errors in `detail.errors`, named by the plan's own fields.
    """
    findings = Findings()
    _check_names(plan, findings)
    devices = {
        position: placed(
            operation.placement, catalogue.devices, f"operations[{position}].placement", findings
        )
        for position, operation in enumerate(plan.operations)
    }
    _check_fit(plan, devices, findings)
    _check_rooms(plan, devices, findings)
    _check_applications(plan, devices, findings)
    arguments = [with_cluster(o, devices[n], n, findings) for n, o in enumerate(plan.operations)]
    packages = [_package(operation, n, catalogue, findings) for n, operation in enumerate(plan.operations)]
    findings.raise_errors()
    after = start_order(plan)
    numbers = order_numbers(after)
    deployable = [
        DeployableOperation(
            operation=operation.id,
            application=operation.app,
            kind=operation.executes.kind,
            order=numbers[operation.id],
            after=sorted(after[operation.id]),
            package=packages[position],
            arguments=arguments[position],
            devices=[device.id for device in devices[position]],
        )
        for position, operation in enumerate(plan.operations)
    ]
    return sorted(deployable, key=lambda found: (found.order, found.operation))


def _check_names(plan: DeploymentPlan, findings: Findings) -> None:
    first: dict[str, int] = {}
    for position, operation in enumerate(plan.operations):
        if first.setdefault(operation.id, position) != position:
            message = f"operations[{first[operation.id]}] also has this id"
            place = f"operations[{position}].id"
            findings.refuse(place, message, operation.id, "another id", ErrorCode.NAME_IN_USE)
    known = sorted({*first, *plan.outside})
    for position, operation in enumerate(plan.operations):
        for relation in ("reads_from", "writes_to"):
            for number, name in enumerate(getattr(operation, relation)):
                if name not in known:
                    place = f"operations[{position}].{relation}[{number}]"
                    findings.refuse(place, "neither an operation nor a name of `outside`", name, known)
    if cycle := find_cycle(data_flow(plan)):
        findings.refuse("operations", f"operations read from each other in a cycle: {' → '.join(cycle)}")


def _check_fit(plan: DeploymentPlan, devices: dict[int, list[Device]], findings: Findings) -> None:
    """Compare kind, software and clock rate of each operation's devices with what it needs."""
    for position, operation in enumerate(plan.operations):
        place, node = f"operations[{position}].runs_on", operation.runs_on
        for field in ("type", "model"):
            wanted = getattr(node.metadata, field)
            others = [d for d in devices[position] if wanted and not _alike(getattr(d, field), wanted)]
            if others:
                kinds = sorted({getattr(d, field) for d in others})
                message = f"{listed(d.id for d in others)} is of another {field}"
                findings.refuse(f"{place}.metadata.{field}", message, wanted, kinds)
        missing: dict[str, list[Device]] = defaultdict(list)
        for device in devices[position]:
            for name in missing_software(node.software, device.software):
                missing[name].append(device)
        for name, lacking in missing.items():
            there = sorted({text for device in lacking for text in device.software})
            message = f"missing on {listed(d.id for d in lacking)}"
            findings.refuse(f"{place}.software[{node.software.index(name)}]", message, name, there)
        clock = node.resources.clock
        slow = [d for d in devices[position] if clock and d.resources.clock and d.resources.clock < clock]
        if slow:
            message = f"CPU too slow on {listed(f'{d.id} ({d.resources.clock:g} GHz)' for d in slow)}"
            findings.refuse(f"{place}.resources.clock", message, f"{clock:g} GHz")


def _check_rooms(plan: DeploymentPlan, devices: dict[int, list[Device]], findings: Findings) -> None:
    """Compare memory and CPUs of each device with the sum of what its operations need."""
    _check_room(plan, devices, findings, "memory", lambda amount: bytes_text(int(amount)))
    _check_room(plan, devices, findings, "cpus", lambda amount: f"{amount:g} CPUs")


def _check_room(
    plan: DeploymentPlan,
    devices: dict[int, list[Device]],
    findings: Findings,
    resource: str,
    text: Callable[[float], str],
) -> None:
    needing: dict[str, list[int]] = defaultdict(list)
    needed: dict[str, float] = defaultdict(float)
    known = {device.id: device for there in devices.values() for device in there}
    for position, operation in enumerate(plan.operations):
        amount = getattr(operation.runs_on.resources, resource)
        for device in devices[position] if amount and _takes_room(operation) else ():
            needing[device.id].append(position)
            needed[device.id] += amount
    short: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name, amount in needed.items():
        has = getattr(known[name].resources, resource)
        if has is not None and amount > has:
            short[tuple(needing[name])].append(name)
    for positions, names in short.items():
        there = listed(f"{name} ({text(getattr(known[name].resources, resource))})" for name in names)
        amount, together = text(needed[names[0]]), ""
        if len(positions) > 1:
            together = f", as it runs {listed(plan.operations[p].id for p in positions)} together"
        findings.refuse(
            f"operations[{max(positions)}].runs_on.resources.{resource}",
            f"too little {_LACKING[resource]} on {there}: {amount} are needed{together}",
            amount,
        )


def _check_applications(plan: DeploymentPlan, devices: dict[int, list[Device]], findings: Findings) -> None:
    seen: dict[tuple[str, str], int] = {}
    clashes: dict[tuple[int, int], list[str]] = defaultdict(list)
    for position, operation in enumerate(plan.operations):
        for device in devices[position]:
            first = seen.setdefault((device.id, operation.app), position)
            if first != position:
                clashes[first, position].append(device.id)
    for (first, position), names in clashes.items():
        operation = plan.operations[position]
        field = "application" if operation.application else "id"
        message = f"operation {plan.operations[first].id} has this application, too, on {listed(names)}"
        place = f"operations[{position}].{field}"
        findings.refuse(place, message, operation.app, "another `application`", ErrorCode.NAME_IN_USE)


def _package(
    operation: Operation, position: int, catalogue: DeviceCatalogue, findings: Findings
) -> Package | None:
    """Return the operation's package with what the catalogue knows of it. The plan's own words win."""
    wanted = operation.executes.package
    if wanted is None or operation.executes.kind in (TaskKind.UNINSTALL, TaskKind.CONFIGURE):
        return wanted
    known = [p for p in catalogue.packages if p.name == wanted.name]
    found = [p for p in known if wanted.version in (None, p.version)]
    place = f"operations[{position}].executes.package"
    if found:
        # The newest is the last one of this name.
        return Package(**{**found[-1].model_dump(exclude_none=True), **wanted.model_dump(exclude_none=True)})
    if wanted.url is not None:
        return wanted
    if known:
        versions = [p.version or "no version" for p in known]
        findings.refuse(f"{place}.version", "the catalogue has other versions", wanted.version, versions)
    else:
        names = sorted({p.name for p in catalogue.packages})
        findings.refuse(f"{place}.name", "not in the catalogue, and no `url` is given", wanted.name, names)
    return None


def _takes_room(operation: Operation) -> bool:
    return operation.executes.kind is not TaskKind.UNINSTALL


def _alike(given: str | None, wanted: str) -> bool:
    """Compare kinds of devices without regard to case. One that the catalogue does not say may be any."""
    return given is None or given.casefold() == wanted.casefold()


def devices_of(operations: Iterable[DeployableOperation]) -> list[str]:
    """Return all devices of a plan, each once."""
    return sorted({device for operation in operations for device in operation.devices})
