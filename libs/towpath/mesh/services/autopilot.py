"""The autopilot: asks coordinator and collector, moves jobs, keeps its decisions in the hub's events."""

from __future__ import annotations

from towpath.contracts.autopilot import AUTOPILOT_EVENTS, AutopilotMode
from towpath.contracts.commands import (
    AbortMigration,
    FinishMigration,
    ListJobs,
    ListOperations,
    ListSites,
    MigrateJob,
    ShowOperation,
)
from towpath.contracts.message import ROOT
from towpath.contracts.metrics import QueryMetrics
from towpath.contracts.pipeline_commands import ListPipelines
from towpath.contracts.storage import QueryValues
from towpath.mesh.permissions import CONSUMING, READ, Rights, own_calls
from towpath.mesh.service_table import Service, register
from towpath.mesh.state import MeshState

_ASKED = (
    ListJobs,
    ListSites,
    ListPipelines,
    ListOperations,
    ShowOperation,
    MigrateJob,
    AbortMigration,
    FinishMigration,
    QueryMetrics,
    QueryValues,
)


def settings(state: MeshState, _: str) -> list[str]:
    """Return its rules."""
    return [state.spec.autopilot.model_dump_json()]


AUTOPILOT = register(
    Service(
        name="autopilot",
        summary="foresees which jobs will break their goals, and moves them before",
        module="towpath.autopilot",
        rights=lambda _: Rights(
            publish=[
                *(kind.subject for kind in _ASKED),
                *(kind.wildcard() for kind in AUTOPILOT_EVENTS),
                *own_calls(READ),
                *CONSUMING,
            ],
            subscribe=[f"{ROOT}.command.autopilot.>"],
            answers=True,
        ),
        runs=lambda spec: spec.autopilot.mode is not AutopilotMode.OFF,
        settings=settings,
        commanded_by_clients=True,
    )
)
