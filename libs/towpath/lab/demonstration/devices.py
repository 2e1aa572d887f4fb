"""Devices that send recorded events, and subscribers that receive results, at the sites of a mesh."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.checker.collector import ResultCollector
from towpath.lab.demonstration.truth import identity_in_pipeline
from towpath.lab.workload.replay import Replay
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class Recorded:
    """An event that is sent at a rate, whenever a device would have sent it."""

    payload: bytes
    at: float = 0.0


def device_replay(mesh: MeshState, edge: str, topic: str, rate: float) -> Replay:
    """The devices of an edge: so many events per second to a topic at its broker."""
    site = mesh.site(edge)
    return Replay(
        site.mqtt_host,
        site.mqtt_port,
        site.device.user,
        site.device.password,
        topic,
        client_id=f"devices-{edge}",
        rate=rate,
    )


def subscriber(mesh: MeshState, name: str, topic: str) -> ResultCollector:
    """A subscriber to one topic of a site. Were several topics one session, they would share the broker's
    limit of unacknowledged messages, and a burst in one would delay, and so reorder, another.
    """
    site = mesh.site(name)
    return ResultCollector(
        site.mqtt_host,
        site.mqtt_port,
        [topic],
        f"checker-{name}-{topic.replace('/', '-')}",
        site.device.user,
        site.device.password,
        identity=identity_in_pipeline,
    )
