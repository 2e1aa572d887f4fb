"""Limits of a running container that are made narrower for a while, and put back as they were."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from towpath.containers.running import BILLION
from towpath.lab.containers.updating import update

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

USUAL_PERIOD_US = 100_000
"""In which a quota of processor time is given out, where nothing else was asked for."""

BOUNDLESS_MEMORY, BOUNDLESS_SWAP = 2**62, 2**63 - 4096
"""Bytes; the latter, of memory and swap together, is the largest that kernels know."""

Limits = Mapping[str, int]
"""Fields of a container's configuration, as the daemon calls them; 0 is no limit."""


def processor_limits(container: Container) -> Limits:
    """What says how much processor time it may take."""
    return _fields(container, "NanoCpus", "CpuQuota", "CpuPeriod")


def processors(limits: Limits) -> float | None:
    """How many processors that is; null: all that there are."""
    if limits["NanoCpus"] > 0:
        return limits["NanoCpus"] / BILLION
    if limits["CpuQuota"] > 0:
        return limits["CpuQuota"] / (limits["CpuPeriod"] or USUAL_PERIOD_US)
    return None


def limit_processors(docker: DockerClient, container: Container, cpus: float) -> None:
    """Let it take so many processors from now on."""
    limits = processor_limits(container)
    if limits["NanoCpus"] > 0:
        update(docker, str(container.id), {"NanoCpus": round(cpus * BILLION)})
    else:
        # A daemon takes a number of processors back by no means, a quota it does.
        period = limits["CpuPeriod"] or USUAL_PERIOD_US
        update(docker, str(container.id), {"CpuQuota": round(cpus * period)})


def restore_processors(docker: DockerClient, container: Container, before: Limits) -> None:
    """Let it take what `processor_limits` said."""
    if before["NanoCpus"] > 0:
        update(docker, str(container.id), {"NanoCpus": before["NanoCpus"]})
    else:
        update(docker, str(container.id), {"CpuQuota": before["CpuQuota"] or -1})


def memory_limits(container: Container) -> Limits:
    """What says how much memory it may take, without swap and with it, bytes."""
    limits = _fields(container, "Memory", "MemorySwap")
    return {name: limit if limit < BOUNDLESS_MEMORY else 0 for name, limit in limits.items()}


def limit_memory(docker: DockerClient, container: Container, limit_bytes: int) -> None:
    """Let it take so much memory from now on, and no swap on top."""
    update(docker, str(container.id), {"Memory": limit_bytes, "MemorySwap": limit_bytes})


def restore_memory(docker: DockerClient, container: Container, before: Limits) -> None:
    """Let it take what `memory_limits` said. A daemon does not take a limit back: what had none gets one that
    no machine reaches."""
    memory, swap = before["Memory"] or BOUNDLESS_MEMORY, before["MemorySwap"] or BOUNDLESS_SWAP
    update(docker, str(container.id), {"Memory": memory, "MemorySwap": swap})


def _fields(container: Container, *names: str) -> Limits:
    configuration = container.attrs["HostConfig"]
    return {name: max(0, configuration.get(name) or 0) for name in names}
