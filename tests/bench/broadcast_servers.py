"""Servers, agents and devices of the benchmark of broadcasts.

python broadcast_servers.py HOME    the agents of all sites in one process: they only deliver
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from towpath.atomic_write import write_private_file
from towpath.bus import Bus
from towpath.contracts.broadcast import BroadcastState, DeliverBroadcast, SiteBroadcast
from towpath.contracts.data_plane import broadcast_subject
from towpath.contracts.links import LinkConditions, ShapeLink
from towpath.contracts.site import MeshSpec, Retention, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.ports import free_port
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import hub_servers, site_server
from towpath.mesh.state import MeshState
from towpath.processes import ChildSpec, launch, stop
from towpath.streams.broadcasts import ensure_broadcasts, store_broadcast
from towpath.streams.streams import SiteStreams
from towpath.supervisor.app import children

SHAPED_S = 10.0


@dataclass(frozen=True)
class Running:
    """Sites and devices that run."""

    sites: list[str]
    hub: Bus
    """Commands sites, as the coordinator does."""
    monitor: int
    """Port at which the hub tells about its leaves."""
    devices: asyncio.subprocess.Process
    """Prints what arrives, see `broadcast_devices.py`."""


def say(text: str) -> None:
    """Tell what is done, on stderr."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


@asynccontextmanager
async def running(sites: int, receivers: list[int], bandwidth: int | None) -> AsyncIterator[Running]:
    """Start all; stop it in the end. With a `bandwidth`, in bytes per second, every link has no more."""
    with tempfile.TemporaryDirectory() as directory:
        home = Home(Path(directory))
        names = [SiteSpec(name=f"s{n:02}") for n in range(sites)]
        state = provision(home, MeshSpec(sites=names, emulate_links=bandwidth is not None))
        monitor = free_port(set())
        specs = _servers(state, home, monitor)
        try:
            for spec in specs:
                await asyncio.to_thread(launch, spec, home.run)
                while spec.ready is not None and not await spec.ready():
                    await asyncio.sleep(0.05)
            say(f"{len(specs)} servers run")
            async with AsyncExitStack() as stack:
                bus = await stack.enter_async_context(await _bus(state.hub_url, state.login("coordinator")))
                await _process(stack, __file__, str(home.root))
                say("agents are ready")
                devices = await _devices(stack, state, receivers)
                if bandwidth is not None:
                    await _narrow(state, bandwidth)
                yield Running(sorted(state.sites), bus, monitor, devices)
        finally:
            for spec in reversed(specs):
                await asyncio.to_thread(stop, home.run, spec.name, grace_s=3)


def _servers(state: MeshState, home: Home, monitor: int) -> list[ChildSpec]:
    links = [child for child in children(state, home) if child.name == "links"]
    [hub], path = hub_servers(state, home), home.hub / "nats.conf"
    write_private_file(path, json.dumps({**json.loads(path.read_text()), "http": f"127.0.0.1:{monitor}"}))
    return [hub, *links, *(site_server(state, site, home) for site in state.sites)]


async def _narrow(state: MeshState, bandwidth: int) -> None:
    """Give every link a bandwidth."""
    async with await _bus(state.hub_url, state.operator) as operator:
        for site in state.sites:
            shape = ShapeLink(site=site, conditions=LinkConditions(bandwidth_bytes_per_s=bandwidth))
            await operator.request(shape, deadline_s=SHAPED_S)


async def _bus(url: str, login) -> Bus:
    return await Bus.connect(url, login.user, login.password, name="bench")


async def _process(stack: AsyncExitStack, *arguments: str, given: bytes = b"") -> asyncio.subprocess.Process:
    """Start a Python process and wait until it says `ready`. It is ended with the stack."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=pipe, stdout=pipe, limit=2**24
    )

    async def end() -> None:
        process.terminate()
        await process.wait()

    stack.push_async_callback(end)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(given)
    await process.stdin.drain()
    await process.stdout.readline()
    return process


async def _devices(
    stack: AsyncExitStack, state: MeshState, receivers: list[int]
) -> asyncio.subprocess.Process:
    sites, plan = sorted(state.sites), []
    for number in range(max(receivers)):
        access = state.sites[sites[number % len(sites)]]
        groups = [f"broadcast/all{count}/+" for count in receivers if number < count]
        topics = [*groups, f"broadcast/device{number}/+"]
        plan.append([access.mqtt_host, access.mqtt_port, access.device.user, access.device.password, topics])
    program = str(Path(__file__).with_name("broadcast_devices.py"))
    process = await _process(stack, program, given=json.dumps(plan).encode() + b"\n")
    say(f"{len(plan)} devices are connected")
    return process


async def serve_agents(root: Path) -> None:
    """Deliver at every site, as agents do, until ended."""
    state = MeshState.load(Home(root))
    buses = [await _deliver_at(state, site) for site in sorted(state.sites)]
    print("ready", flush=True)
    await asyncio.Event().wait()
    del buses


async def _deliver_at(state: MeshState, site: str) -> Bus:
    access = state.sites[site]
    bus = await _bus(access.nats_url, access.login("agent"))
    streams = SiteStreams(bus.connection, site, Retention())
    await streams.ensure_in()
    await ensure_broadcasts(streams)

    async def deliver(command: DeliverBroadcast) -> SiteBroadcast:
        subject = broadcast_subject(command.topic, command.broadcast)
        at = await store_broadcast(streams, subject, command.to_payload(), command.left_s)
        return SiteBroadcast(site=site, state=BroadcastState.DELIVERED, at=at)

    await bus.serve(DeliverBroadcast, deliver, site=site)
    return bus


if __name__ == "__main__":
    asyncio.run(serve_agents(Path(sys.argv[1])))
