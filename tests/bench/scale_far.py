"""A mesh whose sites are elsewhere: few servers speak for all to the hub, and scripted agents answer.

A server has an account for each of its sites, and from each a leaf connection of its own to the hub, with the
login of the site there. So the hub has as many leaves as with real sites, and holds each to its rights. What
servers of sites would use is saved, and therefore not measured. The servers start one after the other.
"""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
LINKED_AT_ONCE = 250
"""Sites of a server: they link to the hub at once. A link that is not there within two seconds is given up
and begun again, so thousands at once would keep the hub busy with links for which no one waits any more."""
SERVER = "far server"
PROGRAM = "scripted agents"


@dataclass(frozen=True)
class Far:
    """Sites elsewhere that run."""

    state: MeshState
    urls: dict[str, str]
    """Site → where its agent logs in."""
    monitors: list[int]
    """Ports at which their servers tell about their connections."""
    processes: dict[int, str]
    """Process id → its kind: what stands in for the sites."""

    def linked(self) -> int:
        """Return how many sites have a link to the hub. Blocks."""
        return sum(len(_links(port)) for port in self.monitors)

    def interests(self) -> float:
        """Return how many subscriptions elsewhere the hub tells a site of, on average. Blocks."""
        leaves = [leaf for port in self.monitors for leaf in _links(port)]
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
    parts = PROCESSES if count >= SECOND_PROCESS_FROM else 1
    far, names, taken = Far(state, {}, [], {}), sorted(state.sites), set[int]()
    async with AsyncExitStack() as stack:
        async with asyncio.timeout(READY_S):
            for first in range(0, count, LINKED_AT_ONCE):
                port, monitor = free_port(taken), free_port(taken)
                await _link(stack, home, far, names[first : first + LINKED_AT_ONCE], port, monitor)
        logins = home.root / "far-urls.json"
        logins.write_text(json.dumps(far.urls))
        command = (sys.executable, str(AGENTS), str(home.root), str(logins))
        programs = [await _process(stack, home, *command, str(part), str(parts)) for part in range(parts)]
        for program in programs:
            await _ready(program)
        far.processes.update({program.pid: PROGRAM for program in programs})
        yield far


async def _link(
    stack: AsyncExitStack, home: Home, far: Far, sites: Sequence[str], port: int, monitor: int
) -> None:
    """Start a server that speaks for these sites, and return when all are linked to the hub."""
    config = home.root / f"far-{port}.conf"
    await asyncio.to_thread(write_private_file, config, far_config(far.state, sites, port, monitor))
    server = await _process(stack, home, nats_server_binary(), "-c", str(config))
    while not await port_open("127.0.0.1", monitor):
        await asyncio.sleep(0.1)
    while len(await asyncio.to_thread(_links, monitor)) < len(sites):
        await asyncio.sleep(0.1)
    far.urls.update(dict.fromkeys(sites, f"nats://127.0.0.1:{port}"))
    far.monitors.append(monitor)
    far.processes[server.pid] = SERVER


def _links(monitor: int) -> list[dict[str, Any]]:
    """Return the links to the hub that there are. Blocks."""
    with urllib.request.urlopen(f"http://127.0.0.1:{monitor}/leafz", timeout=ANSWER_S) as answer:
        return json.load(answer).get("leafs") or []


def _provision(home: Home, count: int) -> MeshState:
    """Save a mesh whose sites have joined from elsewhere."""
    sites = [SiteSpec(name=f"s{number:04}") for number in range(count)]
    spec = MeshSpec(sites=sites, hub=HubSpec(compression="off"))
    state = provision(home, spec)
    elsewhere = {name: a.model_copy(update={"is_elsewhere": True}) for name, a in state.sites.items()}
    state = state.model_copy(update={"sites": elsewhere})
    state.save(home)
    return state


def far_config(state: MeshState, sites: Sequence[str], port: int, monitor: int) -> str:
    """Return the configuration of a server that speaks for these sites."""
    agent = services()["agent"]
    accounts, remotes = {}, []
    for site in sites:
        access = state.site(site)
        login, leaf = access.login(agent.name), access.leaf
        user = {"user": login.user, "password": login.password, "permissions": agent.permissions(site)}
        accounts[site] = {"users": [user]}
        url = f"nats-leaf://{leaf.user}:{leaf.password}@{state.hub_host}:{state.leaf_port}"
        remotes.append({"url": url, "account": site})
    return json.dumps(
        {
            "server_name": f"far-{port}",
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
