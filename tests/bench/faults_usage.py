"""CPU and memory of one engine with all its processes, four times a second."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import psutil

from towpath.tasks import end

SAMPLE_S = 0.25
LOOK_S = 2.0
"""Interval between searches for new processes. It may be long because Spark keeps its Python workers."""


@dataclass(frozen=True)
class Sample:
    """Usage of the engine and its processes up to one moment."""

    at: float
    """Unix seconds."""
    cpu_s: float
    memory_mb: float
    """Resident; pages that processes share count for each."""


class Family:
    """A process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._members: list[psutil.Process] = []
        self._looked_at = 0.0

    def sample(self) -> Sample:
        """Return their usage up to now. Blocks for a millisecond or two."""
        now = time.monotonic()
        if now - self._looked_at > LOOK_S:
            self._members = [self._root, *self._root.children(recursive=True)]
            self._looked_at = now
        cpu_s, memory = 0.0, 0
        for process in self._members:
            with contextlib.suppress(psutil.NoSuchProcess), process.oneshot():
                times = process.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                memory += process.memory_info().rss
        return Sample(time.time(), cpu_s, memory / 1e6)


def cpu_between(samples: Sequence[Sample], begin: float, end_at: float) -> float:
    """CPU seconds used within an interval, interpolated between samples."""
    at, used = [sample.at for sample in samples], [sample.cpu_s for sample in samples]
    return float(np.interp(end_at, at, used) - np.interp(begin, at, used))


def cores(samples: Sequence[Sample], begin: float, end_at: float) -> list[float]:
    """CPU seconds per second, from each sample within an interval to the next."""
    inside = [sample for sample in samples if begin <= sample.at < end_at]
    return [(b.cpu_s - a.cpu_s) / (b.at - a.at) for a, b in pairwise(inside) if b.at - a.at < 4 * SAMPLE_S]


def memory(samples: Sequence[Sample], begin: float, end_at: float) -> list[float]:
    """Megabytes, of each sample within an interval."""
    return [sample.memory_mb for sample in samples if begin <= sample.at < end_at]


@asynccontextmanager
async def watched(pid: int) -> AsyncIterator[list[Sample]]:
    """Samples of a process and its descendants, inside the context."""
    family, samples = Family(pid), list[Sample]()

    async def work() -> None:
        while True:
            samples.append(await asyncio.to_thread(family.sample))
            await asyncio.sleep(SAMPLE_S)

    task = asyncio.create_task(work(), name=f"usage of {pid}")
    try:
        yield samples
    finally:
        await end([task])
