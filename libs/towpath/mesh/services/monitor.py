"""The monitor: asks agents how far jobs are, reads outputs, publishes where results are diverted."""

from __future__ import annotations

from towpath.contracts.message import HUB_SCOPE, ROOT
from towpath.mesh.permissions import LOOK_UP, Rights, results, site_calls
from towpath.mesh.service_table import Service, register

MONITOR = register(
    Service(
        name="monitor",
        summary="compares two runs of one job, and forwards diverted results",
        module="towpath.monitor",
        rights=lambda _: Rights(
            publish=[
                f"{ROOT}.command.*.report-progress",
                f"{ROOT}.command.*.recompute-window",
                *results(by=HUB_SCOPE),
                *site_calls("*", LOOK_UP),
            ],
            subscribe=[f"{ROOT}.command.monitor.>"],
            answers=True,
        ),
    )
)
