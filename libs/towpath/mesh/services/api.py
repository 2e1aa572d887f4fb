"""The REST interface: sends the coordinator's commands that have a route, reads the EVENTS stream, and the
outputs of jobs at each site, for followers of answers and for webhooks."""

from __future__ import annotations

from towpath.contracts.data_plane import WEBHOOK_CONSUMER
from towpath.contracts.events import EVENTS_STREAM
from towpath.mesh.permissions import CONSUMING, READ, Rights, own_calls, site_calls
from towpath.mesh.service_table import Service, register
from towpath.mesh.state import MeshState, reachable

PLACE_OF_WEBHOOK = f"CONSUMER.RESET.*.{WEBHOOK_CONSUMER}"
"""Call that moves the place of a webhook."""


def rights(_: str) -> Rights:
    """Return the commands of all routes, and what reading events and outputs takes."""
    # Here: other processes that read this table need no routes.
    from towpath.contracts.pipeline_commands import ResultUndelivered
    from towpath.contracts.rest_routes import ROUTES

    asked = [kind for route in ROUTES for kind in (route.command, route.dry_run) if kind is not None]
    reading = (
        f"STREAM.INFO.{EVENTS_STREAM}",
        f"CONSUMER.CREATE.{EVENTS_STREAM}.>",
        f"CONSUMER.MSG.NEXT.{EVENTS_STREAM}.*",
        f"CONSUMER.DELETE.{EVENTS_STREAM}.*",
    )
    commands = sorted({kind.subject for kind in asked})
    outputs = (*site_calls("*", (*READ, PLACE_OF_WEBHOOK)), *CONSUMING)
    return Rights(publish=[*commands, ResultUndelivered.wildcard(), *own_calls(reading), *outputs])


def settings(state: MeshState, _: str) -> list[str]:
    """Return address, token, the address of the hub, and what clients are shown."""
    shown = state.api_tls.model_dump_json() if state.api_tls else ""
    return [state.spec.listen, str(state.spec.api_port), state.api_token, state.hub_url, shown]


API = register(
    Service(
        name="api",
        summary="serves REST, the live page and webhooks",
        module="towpath.api",
        rights=rights,
        after=("coordinator",),
        address=lambda state: (reachable(state.spec.listen), state.spec.api_port),
        settings=settings,
        secrets=frozenset({"api_token"}),
        published=True,
    )
)
