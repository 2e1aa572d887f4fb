"""A topology that is up: what a scenario, or a person, can do to its nodes and their links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from towpath.bus import Bus
from towpath.contracts.commands import ListSites
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.links import ShapeLink
from towpath.contracts.scenario_nodes import (
    ChangeLink,
    FailNodes,
    NodeStep,
    Outages,
    ResizeNode,
    StartNodes,
    StopNodes,
    Travel,
)
from towpath.contracts.site import SiteState, SiteStatus
from towpath.contracts.topology import Node, NodeLink, Topology
from towpath.lab.emulation.nodes import Nodes
from towpath.lab.topology.movements import journey, outages, postponed_s
from towpath.lab.topology.shares import Host, Share, share_of
from towpath.tasks import end

UP_S = 240.0
"""Seconds for the site of a node to be up after its start. An engine needs 15 s of one core, and twice as
long on a busy machine. A failed start is tried again."""

ASK_S, ATTEMPT_S = 20.0, 5.0
LOOK_EVERY_S = 0.5


@dataclass
class Emulation:
    """The nodes of a topology, as containers.

    Invariant: a node whose site is up has its share of the machine and no more, unless it is `at_full_speed`
    or was just started.
    """

    topology: Topology
    host: Host
    nodes: Nodes
    bus: Bus
    """To the hub, as the operator."""
    tell: Callable[[str], None] = lambda text: None
    """Shows people what takes long."""
    away: set[str] = field(default_factory=set)
    """Nodes that are not meant to run now."""
    failed: set[str] = field(default_factory=set)
    """Nodes among them that are to return."""
    sizes: dict[str, Node] = field(default_factory=dict)
    """Present sizes of nodes that were resized."""

    def node(self, name: str) -> Node:
        """Return a node with its present size. Raises `TowpathError` for an unknown name."""
        found = self.sizes.get(name) or self.topology.node(name)
        if found is None:
            known = [node.name for node in self.topology.nodes]
            raise TowpathError.unknown("node", name, known)
        return found

    def share(self, name: str) -> Share:
        """Return the present share of a node. Raises `TowpathError`."""
        return share_of(self.node(name), self.host)

    async def carry_out(self, step: NodeStep, seed: object = 0) -> None:
        """Execute a step of a timeline to its end: a journey, an outage, the start of a node.

        `seed` decides what chance does. Raises `TowpathError`.
        """
        match step:
            case StartNodes():
                await self.start(step.nodes)
            case StopNodes():
                await self.stop(step.nodes)
            case FailNodes():
                await self.fail(step.nodes, step.for_s)
            case ResizeNode():
                await self.resize(step.node, step.cores, step.clock_ghz, step.memory_mb)
            case ChangeLink():
                await self.link(step.node, step.link)
            case Travel():
                await self.travel(step.node, step.rounds)
            case Outages():
                await self.let_fail(step.nodes, step.for_s, seed)

    async def settle(self, within_s: float = UP_S) -> None:
        """Bring everything back to the topology: nodes up, spare ones away, sizes, links.

        Raises `TowpathError`.
        """
        self.sizes.clear()
        await self.stop([node.name for node in self.topology.nodes if node.spare])
        await self.start([node.name for node in self.topology.nodes if not node.spare], within_s)
        for node in self.topology.nodes:
            await self.link(node.name, None)

    async def start(self, names: Sequence[str], within_s: float = UP_S) -> None:
        """Start nodes at full speed. They get their shares once their sites are up.

        At most as many start at a time as the machine has cores, because an engine that takes too long counts
        as dead. Raises `TowpathError` (deadline) if one is not up within `within_s`.
        """
        at_a_time = max(1, self.host.cores)
        for first in range(0, len(names), at_a_time):
            wave = names[first : first + at_a_time]
            self.tell(f"starting at full speed: {', '.join(wave)}")
            for name in wave:
                await self._begin(name)
            await self.until_up(wave, within_s)
            await self.limit(wave)

    async def stop(self, names: Iterable[str]) -> None:
        """End nodes in an orderly way. Raises `TowpathError`."""
        await _all(self._take_away(name, killed=False) for name in names)

    async def fail(self, names: Sequence[str], for_s: float | None) -> None:
        """Kill all processes in nodes at once. After `for_s`, start them again, and wait until they are up.

        Raises `TowpathError`.
        """
        await _all(self._take_away(name, killed=True) for name in names)
        if for_s is not None:
            await asyncio.sleep(for_s)
            await self.start(names)

    async def revive(self) -> None:
        """Start the nodes that failed and did not return. Raises `TowpathError`."""
        await self.start(sorted(self.failed))

    async def bring_back(self) -> None:
        """Start all nodes that are away, but spare ones. Raises `TowpathError`."""
        spare = {node.name for node in self.topology.nodes if node.spare}
        await self.start(sorted(self.away - spare))

    async def resize(
        self,
        name: str,
        cores: float | None = None,
        clock_ghz: float | None = None,
        memory_mb: int | None = None,
    ) -> None:
        """Scale a node up or down. None: unchanged. Raises `TowpathError` beyond what the machine has."""
        given = {"cores": cores, "clock_ghz": clock_ghz, "memory_mb": memory_mb}
        changes = {key: value for key, value in given.items() if value is not None}
        size = self.node(name).model_copy(update=changes)
        share_of(size, self.host)
        self.sizes[name] = size
        await self.limit([name])

    async def link(self, name: str, link: NodeLink | None) -> None:
        """Set the link of a node. None: as the topology has it. Raises `TowpathError`."""
        wanted = link or self.node(name).link
        command = ShapeLink(site=name, conditions=wanted.conditions)
        await self.bus.request(command, deadline_s=ASK_S, attempt_s=ATTEMPT_S)

    async def travel(self, name: str, rounds: int) -> None:
        """Lead a node through its journey, to the end. Raises `TowpathError` if it has none."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            for end_s, link in journey(self.node(name), rounds):
                await self.link(name, link)
                await asyncio.sleep(max(0.0, begun + end_s - loop.time()))
        finally:
            # Even if it was cancelled on the way: a node does not stay in a tunnel.
            await asyncio.shield(self.link(name, None))

    async def let_fail(self, names: Sequence[str] | None, for_s: float, seed: object) -> None:
        """Let nodes fail by chance as their stability says. Return when the last one is back."""
        chosen = [self.node(name) for name in names or self.nodes.names]
        await _all(self._follow(node, for_s, seed) for node in chosen if node.name not in self.away)

    async def limit(self, names: Iterable[str]) -> None:
        """Give nodes their shares. Raises `TowpathError`."""
        for name in names:
            async with self.nodes.lock(name):
                await self.nodes.limit(name, self.share(name))

    @asynccontextmanager
    async def at_full_speed(self) -> AsyncIterator[None]:
        """Give nodes all that the machine has, for work that is not to be emulated."""
        there = [name for name in self.nodes.names if name not in self.away]
        for name in there:
            async with self.nodes.lock(name):
                await self.nodes.unleash(name, self.share(name))
        try:
            yield
        finally:
            await asyncio.shield(self.limit(there))

    async def until_up(self, names: Sequence[str], within_s: float = UP_S) -> None:
        """Wait until the sites of nodes are up. Raises `TowpathError` (deadline) with those that are not."""
        begun, missing = time.time(), list(names)
        told: dict[str, SiteStatus] = {}
        try:
            async with asyncio.timeout(within_s):
                while missing:
                    told |= {site.site: site for site in await self.sites()}
                    missing = [name for name in names if name not in told or not _is_up(told[name], begun)]
                    await asyncio.sleep(LOOK_EVERY_S if missing else 0)
        except TimeoutError:
            reasons = "; ".join(f"{name}: {_why_not(told.get(name))}" for name in missing)
            raise TowpathError(
                ErrorCode.DEADLINE, f"after {within_s:g} s not up: {reasons}", field="nodes", value=missing
            ) from None

    async def sites(self) -> list[SiteStatus]:
        """Return the sites as the coordinator sees them. None of them while it does not answer."""
        try:
            return (await self.bus.request(ListSites(), deadline_s=ATTEMPT_S)).sites
        except TowpathError as error:
            if not error.detail.retryable:
                raise
            return []

    async def _begin(self, name: str) -> None:
        share = self.share(name)
        async with self.nodes.lock(name):
            if await self.nodes.cpu_s(name) is None:
                await self.nodes.unleash(name, share)
                await self.nodes.start(name)
            self.away.discard(name)
            self.failed.discard(name)

    async def _follow(self, node: Node, for_s: float, seed: object) -> None:
        """Execute the outages of one node, one after another. The start of its engine counts as away."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        later_s = 0.0
        for outage in outages(node, for_s, seed):
            if outage.begin_s + later_s >= for_s:
                return
            begin = begun + outage.begin_s + later_s
            await asyncio.sleep(max(0.0, begin - loop.time()))
            await self.fail([outage.node], outage.for_s)
            later_s += postponed_s(node, max(0.0, loop.time() - begin - outage.for_s))

    async def _take_away(self, name: str, *, killed: bool) -> None:
        self.node(name)
        async with self.nodes.lock(name):
            self.away.add(name)
            self.failed |= {name} if killed else set()
            await (self.nodes.kill(name) if killed else self.nodes.stop(name))


def _is_up(site: SiteStatus, since: float) -> bool:
    """True if it said so after `since`: a killed site still counts as up for seconds."""
    return site.state is SiteState.UP and site.at.timestamp() >= since


def _why_not(site: SiteStatus | None) -> str:
    return "the coordinator does not answer" if site is None else site.error or site.state


async def _all(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Do all at once. A failure ends the others."""
    tasks: list[asyncio.Task[None]] = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        await end(tasks)
