"""Bring up the nodes of a topology, and take everything away again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.topology import Topology
from towpath.lab.emulation.emulation import Emulation
from towpath.lab.emulation.nodes import Nodes
from towpath.lab.emulation.project import Project, check_images
from towpath.lab.topology.shares import Host, overcommitted, shares, this_host
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.tasks import to_the_end

HUB_S = 120.0
"""Seconds for the hub to answer after the start of its container."""

DEFAULT_TAG = "local"
"""Of the images, as they are built from this repository."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """A topology to bring up, checked against this machine."""

    topology: Topology
    host: Host
    warnings: list[str]

    @classmethod
    def of(cls, topology: Topology) -> Plan:
        """Check a topology. Raises `TowpathError` when a node is larger than this machine."""
        host = this_host(topology)
        shares(topology, host)
        return cls(topology, host, overcommitted(topology, host))

    @property
    def settled(self) -> Topology:
        """The topology with this machine's clock, so that later readers find the same shares, even if cores
        are clocked otherwise then."""
        return self.topology.model_copy(update={"host_clock_ghz": self.host.clock_ghz})


async def bring_up(
    home: Home, plan: Plan, tell: Tell, tag: str = DEFAULT_TAG, artefact_root: str | None = None
) -> None:
    """Bring a topology up under `home`, or bring the one there back to its description.

    Jobs may bring user code from `artefact_root`; None keeps the present root. Nodes that failed or were
    stopped are started, limits and links become as described. Raises `TowpathError`. Containers that were
    started by then stay, and `take_down` removes them.
    """
    for warning in plan.warnings:
        tell(f"beware: {warning}")
    project = Project(home)
    await asyncio.to_thread(check_free, project, plan.topology)
    await asyncio.to_thread(check_images, tag)
    # A thread that is not awaited would go on making files that `take_down` removes.
    await to_the_end(asyncio.to_thread(project.write, plan.settled, tag, artefact_root))
    tell("containers …")
    await to_the_end(asyncio.to_thread(project.create))
    try:
        async with emulation(home, tell) as running:
            await running.settle()
    except TowpathError as error:
        raise await asyncio.to_thread(_explained, error, project) from error
    tell("every node has its share, every link is as described")


async def take_down(home: Home) -> list[str]:
    """Remove everything that was brought up under `home`: containers, networks, volumes, and the directory.

    Return the names of what was removed. Raises `DaemonError`.
    """
    return await to_the_end(asyncio.to_thread(Project(home).remove))


@asynccontextmanager
async def emulation(home: Home, tell: Tell = lambda text: None) -> AsyncIterator[Emulation]:
    """Yield the topology that is up under `home`. Raises `TowpathError` if none is."""
    project = Project(home)
    topology = await asyncio.to_thread(project.standing)
    if topology is None:
        raise nothing_up(home)
    mesh = await asyncio.to_thread(MeshState.load, home)
    found = await asyncio.to_thread(project.containers)
    nodes = Nodes({node.name: found[node.name] for node in topology.nodes if node.name in found})
    user = mesh.operator
    bus = await Bus.connect(mesh.hub_url, user.user, user.password, name="emulation", within_s=HUB_S)
    async with bus:
        running = Emulation(topology, this_host(topology), nodes, bus, tell)
        running.away |= {node for node in nodes.names if await nodes.cpu_s(node) is None}
        yield running


def nothing_up(home: Home) -> TowpathError:
    """Return the error that no topology is up under `home`."""
    return TowpathError(
        ErrorCode.UNREACHABLE,
        "no topology is up here; bring one up with `towpath fog up`",
        field="home",
        value=str(home.root),
    )


def _explained(error: TowpathError, project: Project) -> TowpathError:
    """Return the error with the last words of containers that do not come up."""
    troubles = project.troubles() if error.detail.retryable else []
    message = "; ".join([error.detail.message, *troubles])
    return TowpathError.of(error.detail.model_copy(update={"message": message}))


def check_free(project: Project, wanted: Topology) -> None:
    """Raise `TowpathError` if something else is under this home."""
    there = project.topology()
    if there is None and project.home.state.exists():
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "here is a mesh that is no emulated topology",
            field="home",
            value=str(project.home.root),
            allowed="a directory of its own",
        )
    if there is not None and _identity(there) != _identity(wanted):
        # Nodes log in at a running hub: it would have to be restarted to know others.
        raise TowpathError(
            ErrorCode.BUSY,
            f"here the topology {there.name} is up; take it down first with `towpath fog down`",
            field="topology",
            value=wanted.name,
            allowed=f"{there.name}, of the nodes {', '.join(node.name for node in there.nodes)}",
        )


def _identity(topology: Topology) -> tuple[str, list[str]]:
    return topology.name, sorted(node.name for node in topology.nodes)
