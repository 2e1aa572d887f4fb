"""The collector: asks sites for what they measured, reads spans and events everywhere, keeps the hub's
spans."""

from __future__ import annotations

from towpath.contracts.commands import ListJobs, ListOperations, ListSites, ShowOperation
from towpath.contracts.message import HUB_SCOPE, ROOT
from towpath.contracts.metrics import Metric
from towpath.contracts.pipeline_commands import ListPipelines
from towpath.contracts.storage import SITE_VALUE_COMMANDS
from towpath.mesh.permissions import CONSUMING, READ, Rights, own_calls, site_calls
from towpath.mesh.service_table import Service, register
from towpath.mesh.state import MeshState

_ASKED = (ListJobs, ListSites, ListOperations, ShowOperation, ListPipelines)


def settings(state: MeshState, _: str) -> list[str]:
    """Return what sites store."""
    return [state.spec.storage.model_dump_json()]


COLLECTOR = register(
    Service(
        name="collector",
        summary="asks sites for what they measured, and puts traces together",
        module="towpath.collector",
        rights=lambda _: Rights(
            publish=[
                f"{ROOT}.command.*.read-metrics",
                *(kind.wildcard() for kind in SITE_VALUE_COMMANDS),
                f"{ROOT}.command.*.echo",
                *(kind.subject for kind in _ASKED),
                *own_calls([">"]),
                *site_calls("*", READ),
                *CONSUMING,
            ],
            subscribe=[
                f"{ROOT}.command.collector.>",
                f"{ROOT}.command.{HUB_SCOPE}.echo",
                f"{ROOT}.heartbeat.*",
                Metric.wildcard(),
            ],
            answers=True,
        ),
        settings=settings,
        commanded_by_clients=True,
        keeps_files=True,
    )
)
