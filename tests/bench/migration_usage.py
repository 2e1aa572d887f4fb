"""Usage of the processes of a measured mesh: CPU, memory, and bytes that its servers read and write."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import psutil
from measured_mesh import MeasuredMesh
from migration_arrivals import Interval

from towpath.mesh import lifecycle

SAMPLE_S = 1.0
SERVICES = "services"
"""Everything that belongs to no site: hub, coordinator, monitor, Redis."""
SERVER = "nats-server"
END_S = 10.0


@dataclass(frozen=True)
class Sample:
    """Usage of a group of processes up to one moment."""

    at: float
    """Unix seconds."""
    cpu_s: float
    memory_mb: float
    """Resident; pages that processes share count for each."""
    server_bytes: int
    """Bytes its NATS server read and wrote, through sockets and files."""


Usage = Mapping[str, Sequence[Sample]]
"""Site, or `services` → its samples in order of time."""


def cpu_s(samples: Sequence[Sample], intervals: Sequence[Interval]) -> float:
    """CPU seconds used within the intervals, interpolated between samples."""
    return _grown(samples, [sample.cpu_s for sample in samples], intervals)


def server_bytes(samples: Sequence[Sample], intervals: Sequence[Interval]) -> float:
    """Bytes that the NATS server read and wrote within the intervals."""
    return _grown(samples, [float(sample.server_bytes) for sample in samples], intervals)


def memory_mb(samples: Sequence[Sample], intervals: Sequence[Interval]) -> float | None:
    """The most memory that any sample within the intervals shows; none without samples."""
    inside = (s.memory_mb for s in samples if any(begin <= s.at < end for begin, end in intervals))
    return max(inside, default=None)


def _grown(samples: Sequence[Sample], values: Sequence[float], intervals: Sequence[Interval]) -> float:
    times = [sample.at for sample in samples]
    ends, begins = [end for _, end in intervals], [begin for begin, _ in intervals]
    if not times:
        return 0.0
    return float(np.interp(ends, times, values).sum() - np.interp(begins, times, values).sum())


def owner_of(pid: int, parents: Mapping[int, int], roots: Mapping[int, str]) -> str | None:
    """The group of a process: that of its nearest ancestor, or itself, that is a root; none for strangers."""
    seen: set[int] = set()
    while pid and pid not in seen:
        if pid in roots:
            return roots[pid]
        seen.add(pid)
        pid = parents.get(pid, 0)
    return None


def sample(roots: Mapping[int, str]) -> dict[str, Sample]:
    """One sample of each group, given the groups' outermost processes. Blocks for some 20 ms."""
    running = {process.pid: process for process in psutil.process_iter(["ppid"])}
    parents = {pid: process.info["ppid"] or 0 for pid, process in running.items()}
    members: defaultdict[str, list[psutil.Process]] = defaultdict(list)
    for pid, process in running.items():
        owner = owner_of(pid, parents, roots)
        if owner is not None:
            members[owner].append(process)
    return {owner: _together(processes) for owner, processes in members.items()}


def _together(processes: Iterable[psutil.Process]) -> Sample:
    cpu, memory, transferred = 0.0, 0, 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
            times = process.cpu_times()
            # Ended children count, too: processes come and go, but the sum must not shrink.
            cpu += times.user + times.system + times.children_user + times.children_system
            memory += process.memory_info().rss
            if process.name().startswith(SERVER):
                counters = process.io_counters()
                transferred += counters.read_chars + counters.write_chars  # type: ignore[attr-defined]
    return Sample(time.time(), cpu, memory / 1e6, transferred)


async def roots_of(mesh: MeasuredMesh) -> dict[int, str]:
    """The outermost processes of each site and of the services."""
    listed = await asyncio.to_thread(lifecycle.processes, mesh.home)
    sites = mesh.state.sites
    # They are called after their site: `jfk-agent`, `jfk-nats`, `jfk-engine`.
    owners = {p.pid: p.name.rpartition("-")[0] for p in listed if p.pid is not None}
    return {pid: owner if owner in sites else SERVICES for pid, owner in owners.items()}


@asynccontextmanager
async def watched(mesh: MeasuredMesh) -> AsyncIterator[dict[str, list[Sample]]]:
    """Samples every second, inside the context."""
    samples: dict[str, list[Sample]] = defaultdict(list)
    roots = await roots_of(mesh)

    async def work() -> None:
        while True:
            for group, found in (await asyncio.to_thread(sample, roots)).items():
                samples[group].append(found)
            await asyncio.sleep(SAMPLE_S)

    task = asyncio.create_task(work(), name="usage")
    try:
        yield samples
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            async with asyncio.timeout(END_S):
                await task
