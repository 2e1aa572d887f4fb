"""The limits of a container and its use of the processor: read, changed while it runs, and put back.

Changed limits survive restarts of the container.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from towpath.containers.daemon import daemon, find
from towpath.containers.running import BILLION, MEGABYTE

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

USUAL_PERIOD_US = 100_000
"""Period of a quota of processor time, unless another one was asked for."""

BOUNDLESS_MEMORY, BOUNDLESS_SWAP = 2**62, 2**63 - 4096
"""Bytes. The latter, of memory and swap together, is the largest that kernels know."""

Fields = Mapping[str, int]
"""Fields of a container's configuration, by the daemon's names. 0 is no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """None: as much as the machine has."""

    cpus: float | None = None
    """Seconds of processor time per second, of all threads together."""
    memory_mb: int | None = None
    """Beyond it the kernel kills a process of the container. No swap comes on top."""


def limits_of(container: str) -> Limits:
    """Return the present limits of a container. Raises `DaemonError`."""
    with daemon() as docker:
        found = find(docker, container)
        return Limits(processors(processor_limits(found)), memory_limits(found)["Memory"] // MEGABYTE or None)


def limit(container: str, limits: Limits) -> None:
    """Set the limits of a container, whether it runs or not. Raises `DaemonError`.

    A container that has taken more memory than its new limit may lose a process at once.
    """
    with daemon() as docker:
        # A daemon takes 0 for "as it is", so a container without a limit is given all that there is.
        machine: dict[str, Any] = docker.info() if None in (limits.cpus, limits.memory_mb) else {}
        cpus = machine["NCPU"] if limits.cpus is None else limits.cpus
        memory = machine["MemTotal"] if limits.memory_mb is None else limits.memory_mb * MEGABYTE
        wanted = {"NanoCpus": round(cpus * BILLION), "Memory": memory, "MemorySwap": memory}
        _update(docker, container, wanted)


def cpu_seconds(container: str) -> float | None:
    """Return the processor time since a container's last start. None while it does not run.

    Raises `DaemonError`.
    """
    with daemon() as docker:
        # One shot: the daemon would otherwise wait a second to compute a rate that is not used.
        told = docker.api.stats(container, stream=False, one_shot=True)
    taken = (told.get("cpu_stats") or {}).get("cpu_usage", {}).get("total_usage", 0)
    return taken / BILLION if taken else None


def processor_limits(container: Container) -> Fields:
    """Return the fields that limit its processor time."""
    return _fields(container, "NanoCpus", "CpuQuota", "CpuPeriod")


def processors(fields: Fields) -> float | None:
    """Return the number of processors that the fields allow. None: all that there are."""
    if fields["NanoCpus"] > 0:
        return fields["NanoCpus"] / BILLION
    if fields["CpuQuota"] > 0:
        return fields["CpuQuota"] / (fields["CpuPeriod"] or USUAL_PERIOD_US)
    return None


def limit_processors(docker: DockerClient, container: Container, cpus: float) -> None:
    """Let it take at most this many processors."""
    fields = processor_limits(container)
    if fields["NanoCpus"] > 0:
        _update(docker, str(container.id), {"NanoCpus": round(cpus * BILLION)})
    else:
        # A daemon never takes a number of processors back, but it does take back a quota.
        period = fields["CpuPeriod"] or USUAL_PERIOD_US
        _update(docker, str(container.id), {"CpuQuota": round(cpus * period)})


def restore_processors(docker: DockerClient, container: Container, before: Fields) -> None:
    """Put back the limits that `processor_limits` returned."""
    if before["NanoCpus"] > 0:
        _update(docker, str(container.id), {"NanoCpus": before["NanoCpus"]})
    else:
        _update(docker, str(container.id), {"CpuQuota": before["CpuQuota"] or -1})


def memory_limits(container: Container) -> Fields:
    """Return the fields that limit its memory, without swap and with it, in bytes."""
    fields = _fields(container, "Memory", "MemorySwap")
    return {name: limit if limit < BOUNDLESS_MEMORY else 0 for name, limit in fields.items()}


def limit_memory(docker: DockerClient, container: Container, limit_bytes: int) -> None:
    """Let it take at most this much memory, and no swap on top."""
    _update(docker, str(container.id), {"Memory": limit_bytes, "MemorySwap": limit_bytes})


def restore_memory(docker: DockerClient, container: Container, before: Fields) -> None:
    """Put back the limits that `memory_limits` returned.

    A daemon does not take a limit back: a container without one gets a limit that no machine reaches.
    """
    memory, swap = before["Memory"] or BOUNDLESS_MEMORY, before["MemorySwap"] or BOUNDLESS_SWAP
    _update(docker, str(container.id), {"Memory": memory, "MemorySwap": swap})


def _fields(container: Container, *names: str) -> Fields:
    configuration = container.attrs["HostConfig"]
    return {name: max(0, configuration.get(name) or 0) for name in names}


def _update(docker: DockerClient, container: str, wanted: Fields) -> None:
    """Change fields of a container's configuration."""
    # The client library's own `update` knows quotas only. A daemon refuses them for a container that was
    # started with a number of processors, as in compose files.
    api: Any = docker.api
    answer = api._post_json(api._url("/containers/{0}/update", container), data=dict(wanted))
    api._raise_for_status(answer)
