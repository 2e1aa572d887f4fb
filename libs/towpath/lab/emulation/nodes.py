"""The containers of nodes: started, stopped, killed and limited, each under a lock of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from towpath.containers.errors import NoSuchContainer, SlowDaemon
from towpath.lab.containers import control
from towpath.lab.containers.limits import Limits, cpu_seconds, limit, limits_of
from towpath.lab.topology.shares import Share

ATTEMPTS = 4
"""A daemon on a busy machine may answer too late. All requests here may be repeated."""

STOP_S = 20
"""Seconds for a node to end in an orderly way: its engine finishes a batch, its server writes its data."""

T = TypeVar("T")


class Nodes:
    """Containers by the names of their nodes. Everything raises `DaemonError`."""

    def __init__(self, containers: Mapping[str, str]) -> None:
        """`containers`: node → name of its container."""
        self._containers = dict(containers)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def names(self) -> list[str]:
        """All nodes, whether they run or not."""
        return list(self._containers)

    def lock(self, node: str) -> asyncio.Lock:
        """Held while a node is started, stopped or limited: steps of a scenario go side by side."""
        return self._locks[node]

    async def start(self, node: str) -> None:
        """Start it. Does nothing if it runs."""
        await self._insist(control.start, node)

    async def stop(self, node: str) -> None:
        """End its processes."""
        await self._insist(control.stop, node, STOP_S)

    async def kill(self, node: str) -> None:
        """Kill all its processes at once. It stays away until it is started."""
        await self._insist(control.kill, node)

    async def limit(self, node: str, share: Share) -> None:
        """Give it its share, and no more."""
        await self._insist(limit, node, Limits(share.cpus, share.memory_mb))

    async def unleash(self, node: str, share: Share) -> None:
        """Give it all processors of the machine; its memory stays limited."""
        await self._insist(limit, node, Limits(None, share.memory_mb))

    async def limits(self, node: str) -> Limits:
        """Return its present limits."""
        return await self._insist(limits_of, node)

    async def cpu_s(self, node: str) -> float | None:
        """Return the processor time since its start. None if it does not run."""
        return await self._insist(cpu_seconds, node)

    async def _insist(self, do: Callable[..., T], node: str, *arguments: Any) -> T:
        container = self._containers.get(node)
        if container is None:
            raise NoSuchContainer(node, list(self._containers))
        for _ in range(ATTEMPTS - 1):
            with contextlib.suppress(SlowDaemon):
                return await asyncio.to_thread(do, container, *arguments)
        return await asyncio.to_thread(do, container, *arguments)
