"""Check what only a roll-out needs: sites to reach devices, packages to verify, applications of one plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from towpath.contracts.device_catalogue import DeviceCatalogue
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.plan import DeployableOperation, TaskKind
from towpath.plans.findings import Findings
from towpath.plans.fleet import Fleet
from towpath.plans.order import listed


def sites_of(operations: Iterable[DeployableOperation], catalogue: DeviceCatalogue) -> dict[str, str]:
    """Return the site of each device of a plan. Raises `TowpathError` (invalid) for devices without one."""
    concerned = {device for operation in operations for device in operation.devices}
    places = {device.id: device.place.site for device in catalogue.devices if device.id in concerned}
    if lacking := sorted(device for device, site in places.items() if site is None):
        raise TowpathError(
            ErrorCode.INVALID,
            f"the catalogue says no site for {listed(lacking)}",
            field="catalogue.devices.place.site",
            allowed="the site of the mesh whose broker the device is connected to",
        )
    return {device: site for device, site in places.items() if site is not None}


def check_packages(operations: Iterable[DeployableOperation]) -> None:
    """Raise `TowpathError` (invalid) for packages that devices could not fetch and verify."""
    findings = Findings()
    for operation in operations:
        package = operation.package
        if package is None or operation.kind in (TaskKind.UNINSTALL, TaskKind.CONFIGURE):
            continue
        for field in ("url", "sha256"):
            if getattr(package, field) is None:
                where = f"operations.{operation.operation}.executes.package.{field}"
                message = f"neither plan nor catalogue gives it for {package.name}"
                findings.refuse(where, message, None, "what `towpath gateway pack` prints")
    findings.raise_errors()


def check_unclaimed(operations: Sequence[DeployableOperation], other: Fleet) -> None:
    """Raise `TowpathError` (name in use) for applications on devices that another plan has already."""
    claimed = {
        (device, application)
        for device, record in other.devices.items()
        for application in {*record.applications, *other.wanted.get(device, {})}
    }
    for operation in operations:
        shared = sorted(d for d in operation.devices if (d, operation.application) in claimed)
        if shared:
            raise TowpathError(
                ErrorCode.NAME_IN_USE,
                f"plan {other.version.plan} has this application on {listed(shared)}",
                field=f"operations.{operation.operation}.application",
                value=operation.application,
                allowed="another `application`, or other devices",
            )
