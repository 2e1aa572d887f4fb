"""Memory and CPU time of all processes of a mesh, by kind."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import psutil
from measured_mesh import MeasuredMesh
from migration_usage import owner_of

from towpath.mesh import lifecycle

KINDS = ("engine", "agent", "nats")
"""Kinds of processes at each site. All others belong to the services."""
SERVICES = "services"


@dataclass(frozen=True)
class Usage:
    """Memory and CPU time of all processes of one kind."""

    processes: int = 0
    resident_mb: float = 0.0
    """Pages that processes share count for each of them."""
    proportional_mb: float = 0.0
    """Pages that processes share count once in total (proportional set size)."""
    cpu_s: float = 0.0
    """CPU seconds used so far, ended children included."""


def kind_of(process: str) -> str:
    """Return the kind of a process: `engine` for `jfk-engine`, or the services."""
    ending = process.rpartition("-")[2]
    return ending if ending in KINDS else SERVICES


def usage(roots: Mapping[int, str]) -> dict[str, Usage]:
    """Return usage by kind, given the kind of each outermost process. Blocks for some 100 ms."""
    running = {process.pid: process for process in psutil.process_iter(["ppid"])}
    parents = {pid: process.info["ppid"] or 0 for pid, process in running.items()}
    members: defaultdict[str, list[psutil.Process]] = defaultdict(list)
    for pid, process in running.items():
        owner = owner_of(pid, parents, roots)
        if owner is not None:
            members[owner].append(process)
    return {kind: _together(processes) for kind, processes in members.items()}


def total(usages: Mapping[str, Usage]) -> Usage:
    """All kinds together."""
    every = usages.values()
    return Usage(
        processes=sum(u.processes for u in every),
        resident_mb=sum(u.resident_mb for u in every),
        proportional_mb=sum(u.proportional_mb for u in every),
        cpu_s=sum(u.cpu_s for u in every),
    )


async def usage_of(mesh: MeasuredMesh, site: str | None = None) -> dict[str, Usage]:
    """Return the present usage of the mesh, or of one site of it."""
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    counted = [process for process in listed if site is None or process.name.startswith(f"{site}-")]
    roots = {process.pid: kind_of(process.name) for process in counted if process.pid is not None}
    return await asyncio.to_thread(usage, roots)


async def cores_of(mesh: MeasuredMesh, seconds: float) -> dict[str, float]:
    """Return the cores that each kind keeps busy, on average over the next seconds.

    The usage of a process that ends meanwhile is lost if its parent does not wait for it. Then a kind may
    seem to use nothing.
    """
    begun, before = time.monotonic(), await usage_of(mesh)
    await asyncio.sleep(seconds)
    after = await usage_of(mesh)
    took_s = time.monotonic() - begun
    return {k: max(used.cpu_s - before.get(k, Usage()).cpu_s, 0.0) / took_s for k, used in after.items()}


def _together(processes: list[psutil.Process]) -> Usage:
    count, resident, proportional, cpu = 0, 0, 0, 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            memory = process.memory_full_info()
            times = process.cpu_times()
            count += 1
            resident += memory.rss
            proportional += memory.pss  # type: ignore[attr-defined]
            cpu += times.user + times.system + times.children_user + times.children_system
    return Usage(count, resident / 1e6, proportional / 1e6, cpu)
