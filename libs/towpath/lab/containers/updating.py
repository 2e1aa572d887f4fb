"""What a container may take of its machine: read, and changed while it runs. What is set stays across its
restarts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.containers.daemon import daemon
from towpath.containers.running import BILLION, MEGABYTE

if TYPE_CHECKING:
    from docker.client import DockerClient


@dataclass(frozen=True, slots=True)
class Limits:
    """Null: as much as the machine has."""

    cpus: float | None = None
    """Seconds of processor time per second, of all threads together."""
    memory_mb: int | None = None
    """Beyond it the kernel kills a process of the container. No swap comes on top."""


def limits_of(container: str, host: str | None = None) -> Limits:
    """What holds now. Raises `DaemonError`."""
    with daemon(host) as docker:
        held = docker.api.inspect_container(container)["HostConfig"]
    cpus = held.get("NanoCpus", 0) / BILLION
    if not cpus and held.get("CpuQuota", 0) > 0:
        cpus = held["CpuQuota"] / (held.get("CpuPeriod") or 100_000)
    return Limits(cpus or None, held.get("Memory", 0) // MEGABYTE or None)


def limit(container: str, limits: Limits, host: str | None = None) -> None:
    """Let these limits hold from now on, whether it runs or not. Raises `DaemonError`.

    A container whose limit on memory is set below what it has taken already may lose a process at once.
    """
    with daemon(host) as docker:
        update(docker, container, _wanted(docker, limits))


def _wanted(docker: DockerClient, limits: Limits) -> dict[str, Any]:
    """A daemon takes 0 for "as it is", so what has no limit is given all that there is."""
    machine: dict[str, Any] = {}
    if limits.cpus is None or limits.memory_mb is None:
        machine = docker.info()
    cpus = limits.cpus if limits.cpus is not None else machine["NCPU"]
    memory = limits.memory_mb * MEGABYTE if limits.memory_mb is not None else machine["MemTotal"]
    return {"NanoCpus": round(cpus * BILLION), "Memory": memory, "MemorySwap": memory}


def update(docker: DockerClient, container: str, wanted: Mapping[str, int]) -> None:
    """Change fields of a running container's configuration, as the daemon calls them."""
    # The client library's own `update` knows quotas only, which a daemon refuses where a container was
    # started with a number of processors, as compose files have it.
    api: Any = docker.api
    answer = api._post_json(api._url("/containers/{0}/update", container), data=dict(wanted))
    api._raise_for_status(answer)
