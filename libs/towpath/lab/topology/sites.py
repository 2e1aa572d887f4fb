"""The mesh that a topology describes: each node a site, each link emulated."""

from __future__ import annotations

import math

from towpath.contracts.site import SMALLEST_HEAP_MB, Capacity, EngineSpec, MeshSpec, Retention, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.contracts.topology import Node, Topology

HEAP_OF_MEMORY = 0.4
"""The engine's heap, unless that is less than the smallest. As much again is taken by what its JVM keeps
beside the heap, by the Python processes of jobs, by the agent and by the node's server."""

LARGEST_HEAP_MB = 4096
STATE_OF_MEMORY = 1 / 12
SMALLEST_STATE_MB, LARGEST_STATE_MB = 16, 512

STREAM_OF_DISK = 0.5
"""Share of a node's disk for any one stream, because their number is not known. One stream of events and one
of results fit in together. More full ones take more than the disk has."""


def mesh_spec(topology: Topology, artefact_root: str | None = None) -> MeshSpec:
    """Return the mesh of a topology, spare nodes included, with user code from `artefact_root`.

    Its containers listen in networks of their own, where nothing is encrypted.
    """
    sites = [site_spec(node) for node in topology.nodes]
    tls = TlsSpec(enabled=False, allow_plain=True)
    return MeshSpec(sites=sites, emulate_links=True, artefact_root=artefact_root, tls=tls)


def site_spec(node: Node) -> SiteSpec:
    """Return a node as a site."""
    return SiteSpec(
        name=node.name,
        engine=node.engine or fitting_engine(node),
        retention=_retention(node),
        capacity=Capacity(cores=node.cores, memory_mb=node.memory_mb),
        nats_port=node.nats_port,
        mqtt_port=node.mqtt_port,
    )


def fitting_engine(node: Node) -> EngineSpec:
    """Return an engine for a node that names none: a thread for each core, and its part of the memory."""
    heap = min(LARGEST_HEAP_MB, max(SMALLEST_HEAP_MB, int(node.memory_mb * HEAP_OF_MEMORY)))
    state = min(LARGEST_STATE_MB, max(SMALLEST_STATE_MB, int(node.memory_mb * STATE_OF_MEMORY)))
    threads = max(1, math.ceil(node.cores))
    return EngineSpec(spark_master=f"local[{threads}]", memory=f"{heap}m", state_memory_mb=state)


def _retention(node: Node) -> Retention:
    if node.disk_mb is None:
        return Retention()
    room = int(node.disk_mb * 1024**2 * STREAM_OF_DISK)
    return Retention(max_bytes=min(room, Retention().max_bytes))
