"""A mesh whose sites are elsewhere: one server speaks for all to the hub, and scripted agents answer.

The server has an account for each site, and from each a leaf connection of its own to the hub, with the login
of the site there. So the hub has as many leaves as with real sites, and holds each to its rights. What
servers of sites would use is saved, and therefore not measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from towpath.atomic_write import write_private_file
from towpath.contracts.site import HubSpec, MeshSpec, SiteSpec
from towpath.mesh import lifecycle
from towpath.mesh.binaries import nats_server_binary
from towpath.mesh.home import Home
from towpath.mesh.ports import free_port
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import port_open
from towpath.mesh.service_table import services
from towpath.mesh.state import MeshState

AGENTS = Path(__file__).with_name("scale_agents.py")
READY_S = 600.0
END_S = 20.0
ANSWER_S = 30.0
PROCESSES = 2
"""Processes of agents, from so many sites on. One process holds fewer."""
SECOND_PROCESS_FROM = 2000
SERVER = "far server"
PROGRAM = "scripted agents"


@dataclass(frozen=True)
class Far:
    """Sites elsewhere that run."""

    state: MeshState
    url: str
    """Where their agents log in."""
    monitor: int
    """Port at which their server tells about its connections."""
    processes: dict[int, str]
    """Process id → its kind: what stands in for the sites."""

    def interests(self) -> float:
        """Return how many subscriptions elsewhere the hub tells a site of, on average. Blocks."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.monitor}/leafz", timeout=ANSWER_S) as answer:
            leaves = json.load(answer)["leafs"]
        return sum(leaf["subscriptions"] for leaf in leaves) / len(leaves)


def pairs(sites: Iterable[str]) -> list[tuple[str, str]]:
    """Return the sites in pairs, between which jobs move."""
    ordered = sorted(sites)
    return list(zip(ordered[::2], ordered[1::2], strict=True))


@asynccontextmanager
async def far_sites(home: Home, count: int) -> AsyncIterator[Far]:
    """Start a mesh with so many sites elsewhere, and their agents. The caller brings the mesh down."""
    state = await asyncio.to_thread(_provision, home, count)
    await asyncio.to_thread(lifecycle.start, home)
    taken: set[int] = set()
    port, monitor = free_port(taken), free_port(taken)
    parts = PROCESSES if count >= SECOND_PROCESS_FROM else 1
    url = f"nats://127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        config = home.root / "far-server.conf"
        await asyncio.to_thread(write_private_file, config, far_config(state, port, monitor))
        server = await _process(stack, home, nats_server_binary(), "-c", str(config))
        async with asyncio.timeout(READY_S):
            while not await port_open("127.0.0.1", port):
                await asyncio.sleep(0.1)
        command = (sys.executable, str(AGENTS), str(home.root), url)
        programs = [await _process(stack, home, *command, str(part), str(parts)) for part in range(parts)]
        for program in programs:
            await _ready(program)
        yield Far(state, url, monitor, {server.pid: SERVER, **{program.pid: PROGRAM for program in programs}})


def _provision(home: Home, count: int) -> MeshState:
    """Save a mesh whose sites have joined from elsewhere."""
    sites = [SiteSpec(name=f"s{number:04}") for number in range(count)]
    spec = MeshSpec(sites=sites, hub=HubSpec(compression="off"))
    state = provision(home, spec)
    elsewhere = {name: a.model_copy(update={"is_elsewhere": True}) for name, a in state.sites.items()}
    state = state.model_copy(update={"sites": elsewhere})
    state.save(home)
    return state


def far_config(state: MeshState, port: int, monitor: int) -> str:
    """Return the configuration of the server that speaks for all sites."""
    agent = services()["agent"]
    accounts, remotes = {}, []
    for site, access in state.sites.items():
        login, leaf = access.login(agent.name), access.leaf
        user = {"user": login.user, "password": login.password, "permissions": agent.permissions(site)}
        accounts[site] = {"users": [user]}
        url = f"nats-leaf://{leaf.user}:{leaf.password}@{state.hub_host}:{state.leaf_port}"
        remotes.append({"url": url, "account": site})
    return json.dumps(
        {
            "server_name": "far",
            "host": "127.0.0.1",
            "port": port,
            "http": f"127.0.0.1:{monitor}",
            "accounts": accounts,
            "leafnodes": {"reconnect": "1s", "remotes": remotes},
        }
    )


async def _process(stack: AsyncExitStack, home: Home, *command: str) -> asyncio.subprocess.Process:
    """Start a process that is ended with the stack."""
    with home.log("far").open("ab") as log:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=log)

    async def end() -> None:
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), END_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    stack.push_async_callback(end)
    return process


async def _ready(program: asyncio.subprocess.Process) -> None:
    assert program.stdout is not None
    if await asyncio.wait_for(program.stdout.readline(), READY_S) != b"ready\n":
        raise RuntimeError("the scripted agents did not start")
