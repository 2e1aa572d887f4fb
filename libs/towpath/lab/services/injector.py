"""The injector: gives agents their rules, makes links worse, asks which jobs there are, hears metrics."""

from __future__ import annotations

from towpath.contracts.commands import ListJobs
from towpath.contracts.message import HUB_SCOPE, ROOT
from towpath.contracts.metrics import Metric
from towpath.mesh.permissions import Rights
from towpath.mesh.service_table import Service, register


def rights(_: str) -> Rights:
    """Return what loading and carrying out rules takes."""
    # Here: agents read this table, and most meshes have no rules.
    from towpath.contracts.fault_commands import SetRules

    return Rights(
        publish=[
            SetRules.wildcard(),
            f"{ROOT}.command.links.>",
            ListJobs.subject,
            f"{ROOT}.event.fault.>",
            Metric.wildcard(site=HUB_SCOPE),
        ],
        subscribe=[f"{ROOT}.command.injector.>", Metric.wildcard()],
        answers=True,
    )


INJECTOR = register(
    Service(
        name="injector",
        summary="gives fault rules to agents",
        module="towpath.lab.injector",
        rights=rights,
        runs=lambda spec: spec.faults.enabled,
        commanded_by_clients=True,
        keeps_files=True,
    )
)
