"""The coordinator: commands all sites, hears heartbeats and events, owns the hub's streams."""

from __future__ import annotations

from towpath.artefacts.hub_store import SUBJECTS as ARTEFACT_SUBJECTS
from towpath.contracts.data_plane import REGISTRY_SUBJECTS, gate_prefix
from towpath.contracts.message import HUB_SCOPE, ROOT
from towpath.mesh.names import SERVER_NOTICES
from towpath.mesh.permissions import CONSUMING, READ, Rights, own_calls, site_calls
from towpath.mesh.service_table import SERVERS, Service, register

COORDINATOR = register(
    Service(
        name="coordinator",
        summary="takes commands, plans, and runs operations step by step",
        module="towpath.coordinator",
        rights=lambda _: Rights(
            publish=[
                f"{ROOT}.command.>",
                f"{ROOT}.event.>",
                *own_calls([">"]),
                "$JS.hub.API.>",
                ARTEFACT_SUBJECTS,
                REGISTRY_SUBJECTS,
                *site_calls("*", READ),
                *CONSUMING,
            ],
            subscribe=[
                f"{ROOT}.command.coordinator.>",
                # In a mesh without fault rules it refuses what is asked of an injector.
                f"{ROOT}.command.injector.>",
                f"{ROOT}.heartbeat.*",
                f"{ROOT}.event.>",
                f"{gate_prefix(HUB_SCOPE, '*')}.>",
                *SERVER_NOTICES,
            ],
            answers=True,
        ),
        count=lambda spec: spec.coordinators,
        after=SERVERS,
        settings=lambda state, _: [
            state.spec.artefact_root or "",
            str(state.spec.failover.after_s),
            str(state.spec.coordinators),
        ],
        commanded_by_clients=True,
        secrets=frozenset({"redis_coordinator"}),
        reads_artefacts=True,
    )
)
