"""The share of this machine that each node is given: processor and memory."""

from __future__ import annotations

import os
from dataclasses import dataclass

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Node, Topology

SMALLEST_SHARE = 0.01
"""Of one core: the kernel hands out a processor in slices of 100 ms, and none below 1 ms."""

SERVICES_MB = 1024
"""Memory that the hub, Redis and the services of a mesh take together, beside the nodes."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that emulates."""

    cores: int
    clock_ghz: float
    memory_mb: int


@dataclass(frozen=True, slots=True)
class Share:
    """The share of the machine that a node is given."""

    cpus: float
    """Seconds of processor time per second, of all threads together."""
    memory_mb: int


def this_host(topology: Topology) -> Host:
    """Return this machine, with the clock of the topology, or else of the kernel: the highest that its cores
    can have, or, if that is not known, the highest that one has now.

    Raises `TowpathError` if the clock is unknown.
    """
    clock = topology.host_clock_ghz or clock_ghz()
    if clock is None:
        raise TowpathError(
            ErrorCode.INVALID,
            "this machine does not say how fast its processor is",
            field="host_clock_ghz",
            allowed="its clock in GHz, in the topology",
        )
    memory_mb = psutil.virtual_memory().total // 1024**2
    return Host(cores=os.cpu_count() or 1, clock_ghz=clock, memory_mb=memory_mb)


def share_of(node: Node, host: Host) -> Share:
    """Return the share of a node: cores × its clock ÷ the machine's clock.

    Raises `TowpathError` for a node that is larger than the machine.
    """
    cpus = node.cores * (node.clock_ghz or host.clock_ghz) / host.clock_ghz
    if cpus > host.cores:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"node {node.name} is faster than this machine: {cpus:.2f} of its cores",
            field="cores",
            value=node.cores,
            allowed=f"cores × clock_ghz up to {host.cores} × {host.clock_ghz:g}",
        )
    if node.memory_mb > host.memory_mb:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            f"node {node.name} has more memory than this machine",
            field="memory_mb",
            value=node.memory_mb,
            allowed=f"up to {host.memory_mb}",
        )
    return Share(max(SMALLEST_SHARE, round(cpus, 3)), node.memory_mb)


def shares(topology: Topology, host: Host) -> dict[str, Share]:
    """The share of each node, spare ones included. Raises `TowpathError`; the field says which node."""
    found: dict[str, Share] = {}
    for position, node in enumerate(topology.nodes):
        try:
            found[node.name] = share_of(node, host)
        except TowpathError as error:
            place = f"nodes.{position}.{error.detail.field}"
            raise TowpathError.of(error.detail.model_copy(update={"field": place})) from None
    return found


def overcommitted(topology: Topology, host: Host) -> list[str]:
    """Return in words what the nodes are promised beyond what the machine has.

    Nodes that are not all busy at once work as promised all the same. Spare ones do not count.
    """
    given = shares(topology, host)
    started = [given[node.name] for node in topology.nodes if not node.spare]
    cpus, memory = sum(s.cpus for s in started), sum(s.memory_mb for s in started) + SERVICES_MB
    told: list[str] = []
    if cpus > host.cores:
        told.append(
            f"the nodes have {cpus:.2f} cores of a machine with {host.cores}: busy all at once, "
            f"each is slower than it says by a factor of {cpus / host.cores:.2f}"
        )
    if memory > host.memory_mb:
        told.append(
            f"nodes and services may take {memory} MB of {host.memory_mb}: the machine may run out of it"
        )
    return told


def clock_ghz() -> float | None:
    """Return the clock of the fastest core: others that idle just now may be clocked down. None: unknown."""
    cores = psutil.cpu_freq(percpu=True) or []
    highest = max((core.max for core in cores), default=0.0)
    present = max((core.current for core in cores), default=0.0)
    return (highest or present) / 1000 or None
