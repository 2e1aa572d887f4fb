"""A site's agent: answers the site's commands, speaks for the site, runs its JetStream."""

from __future__ import annotations

from towpath.contracts.data_plane import BROADCAST_SUBJECTS, METRICS_SUBJECT, MQTT_DELIVERY, gate_prefix
from towpath.contracts.message import ROOT
from towpath.contracts.metrics import Echo, Metric
from towpath.mesh.current_keys import without_keys
from towpath.mesh.names import SERVER_QUESTIONS
from towpath.mesh.permissions import MAY_READ, Rights, events_of, own_jetstream, results, uplinks_from
from towpath.mesh.service_table import Service, register
from towpath.mesh.state import MeshState

STOP_S = 8.0
"""An agent ends its engine, which commits or interrupts a micro-batch, and then its broker."""


def settings(state: MeshState, site: str) -> list[str]:
    """Return the settings of the site and of its storage, and where its server finds the hub and Redis."""
    access = state.site(site)
    remotes = [repr(state.leaf_remotes(access)), repr(state.redis_remote(access))]
    # Keys are taken over while it runs, but for those at a broker beside the site's server.
    own = access.model_dump_json() if access.is_bridged else without_keys(access)
    return [own, state.spec.storage.model_dump_json(), *remotes]


AGENT = register(
    Service(
        name="agent",
        summary="runs the site's server and engine; starts, stops and moves jobs",
        module="towpath.agent",
        one_per_site=True,
        rights=lambda site: Rights(
            publish=[
                *events_of(site),
                f"{ROOT}.heartbeat.{site}",
                Metric.wildcard(site=site),
                Echo.wildcard(),
                *MAY_READ,
                f"{ROOT}.engine.{site}.>",
                *results(to=site, by=site),
                f"{MQTT_DELIVERY}>",
                METRICS_SUBJECT,
                BROADCAST_SUBJECTS,
                *own_jetstream(site),
                *uplinks_from(site),
                *SERVER_QUESTIONS,
            ],
            subscribe=[f"{ROOT}.command.{site}.>", f"{gate_prefix(site, '*')}.>"],
            answers=True,
        ),
        after=("coordinator", "links"),
        settings=settings,
        stop_s=STOP_S,
        keeps_files=True,
    )
)
