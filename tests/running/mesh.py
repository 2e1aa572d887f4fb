"""A mesh of real servers with two sites, for tests of messages that must and must not pass between them."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiomqtt
import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from running.waiting import WITHIN_S, eventually
from towpath.artefacts.hub_gate import ArtefactGate
from towpath.artefacts.hub_store import STREAM as ARTEFACTS
from towpath.bus import Bus
from towpath.bus.connecting import flushed
from towpath.contracts.credential import Credential
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import Durability, FaultSettings, HubSpec, MeshSpec, SiteSpec
from towpath.contracts.tls import TlsSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import hub_servers, redis_door, redis_server, site_server
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import client_context
from towpath.processes import ChildSpec, find, launch, stop
from towpath.streams.gate import Gate, Permits

REFUSED_S = 0.4
"""Time to wait before a test concludes that a message does not arrive. Others arrive in milliseconds."""


async def _everyone(reader: str, stream: str) -> bool:
    return True


@dataclass
class Mesh:
    """Running servers, by name."""

    state: MeshState
    home: Home
    specs: dict[str, ChildSpec]

    async def start(self, name: str) -> None:
        await asyncio.to_thread(launch, self.specs[name], self.home.run)
        ready = self.specs[name].ready
        assert ready is not None
        await eventually(ready)

    async def stop(self, name: str) -> None:
        await asyncio.to_thread(stop, self.home.run, name, grace_s=5)

    async def kill(self, name: str) -> None:
        await asyncio.to_thread(stop, self.home.run, name, grace_s=0)

    @asynccontextmanager
    async def client(self, url: str, credential: Credential, **options: Any) -> AsyncIterator[Client]:
        """Open a connection that is closed in the end. Expected refusals are not printed."""
        if url == self.state.hub_url and (tls := self.state.hub_tls()) is not None:
            options = {"tls": tls, "tls_handshake_first": True, **options}
        connection = await nats.connect(
            url.split(","),
            user=credential.user,
            password=credential.password,
            reconnect_time_wait=0.1,
            max_reconnect_attempts=-1,
            **{"inbox_prefix": f"_INBOX.{credential.user}", "error_cb": _ignore, **options},
        )
        try:
            yield connection
        finally:
            await connection.close()

    def coordinator(self) -> AbstractAsyncContextManager[Client]:
        return self.client(self.state.hub_url, self.state.login("coordinator"))

    def operator(self) -> AbstractAsyncContextManager[Client]:
        return self.client(self.state.hub_url, self.state.operator)

    def agent(self, site: str) -> AbstractAsyncContextManager[Client]:
        return self.client(self.state.sites[site].nats_url, self.state.sites[site].login("agent"))

    def engine(self, site: str) -> AbstractAsyncContextManager[Client]:
        return self.client(self.state.sites[site].nats_url, self.state.sites[site].login("engine"))

    @asynccontextmanager
    async def gate(self, site: str, permits: Permits = _everyone) -> AsyncIterator[Gate]:
        """Open the gate of a site, or of the hub. In a whole mesh its agent, or the coordinator, does so."""
        if site == HUB_SCOPE:
            url, login = self.state.hub_url, self.state.login("coordinator")
        else:
            url, login = self.state.sites[site].nats_url, self.state.sites[site].login("agent")
        tls = self.state.hub_tls() if site == HUB_SCOPE else None
        async with await Bus.connect(url, login.user, login.password, name=f"{site}-gate", tls=tls) as bus:
            checks = {ARTEFACTS: ArtefactGate(bus.connection).obstacle} if site == HUB_SCOPE else {}
            gate = Gate(bus, site, permits, checks)
            await gate.open()
            await flushed(bus.connection)
            yield gate

    def device(self, site: str, **options: Any) -> aiomqtt.Client:
        access = self.state.sites[site]
        return aiomqtt.Client(
            access.mqtt_host,
            access.mqtt_port,
            username=access.device.user,
            password=access.device.password,
            **{
                "tls_context": client_context(access.mqtt_authority) if access.mqtt_tls else None,
                "timeout": WITHIN_S,
                **options,
            },
        )


def limit_files(mesh: Mesh, name: str, soft: int) -> None:
    """Limit the files of a server to `soft` bytes each, like a full disk for this process alone."""
    record = find(mesh.home.run, name)
    assert record is not None
    _, hard = resource.prlimit(record.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(record.pid, resource.RLIMIT_FSIZE, (soft, hard))


async def _ignore(error: Exception) -> None:
    """Drop the error: refusals also reach the test."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """Run the servers of a hub and two sites for all tests of a folder. To kill one, use `own_servers`."""
    with running_mesh(tmp_path_factory.mktemp("servers")) as mesh:
        yield mesh


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Mesh]:
    """Run servers for one test, which may kill them."""
    with running_mesh(tmp_path / "servers") as mesh:
        yield mesh


@contextmanager
def running_mesh(
    directory: Path, *, faults: bool = True, tls: bool | None = None, nodes: Literal[1, 3] = 1
) -> Iterator[Mesh]:
    """Run hub, Redis, and the sites jfk (fast) and lga (power-safe), with fault rules or without.

    With `tls`, connections are encrypted, and the door of Redis runs, too. The hub has as many `nodes`.
    """
    home = Home(directory)
    sites = [SiteSpec(name="jfk"), SiteSpec(name="lga", durability=Durability.POWER_SAFE)]
    spec = MeshSpec(
        sites=sites,
        faults=FaultSettings(enabled=faults),
        tls=TlsSpec(enabled=tls),
        hub=HubSpec(nodes=nodes),
    )
    state = provision(home, spec)
    specs = [*hub_servers(state, home), redis_server(state, home)]
    specs += [redis_door(state, home)] if tls else []
    specs += [site_server(state, site, home) for site in state.sites]
    running = Mesh(state, home, {spec.name: spec for spec in specs})
    try:
        for name in running.specs:
            asyncio.run(running.start(name))
        asyncio.run(linked(running))
        yield running
    finally:
        for name in reversed(running.specs):
            stop(home.run, name, grace_s=3)


async def linked(mesh: Mesh) -> None:
    """Wait until the hub reaches the JetStream of every site."""
    async with mesh.operator() as operator:
        for site in mesh.state.sites:
            await eventually(lambda site=site: answers_request(operator, f"$JS.{site}.API.STREAM.NAMES"))


async def answers_request(client: Client, subject: str) -> bool:
    try:
        await client.request(subject, b"", timeout=1)
    except (nats.errors.NoRespondersError, nats.errors.TimeoutError):
        return False
    return True


async def received(client: Client, subject: str, publish: Callable[[], Awaitable[None]]) -> list[bytes]:
    """Return what arrives on `subject` after `publish`; nothing within `REFUSED_S` means refused."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def on_message(message: Msg) -> None:
        arrived.put_nowait(message.data)

    subscription = await client.subscribe(subject, cb=on_message)
    await flushed(client)
    await publish()
    try:
        return [await asyncio.wait_for(arrived.get(), REFUSED_S)]
    except TimeoutError:
        return []
    finally:
        await subscription.unsubscribe()


async def publish_qos1(mesh: Mesh, topic: str) -> None:
    """Publish and wait until the server acknowledges, or closes the connection."""
    with contextlib.suppress(aiomqtt.MqttError):
        async with mesh.device("jfk") as device:
            await device.publish(topic, b"forged", qos=1, timeout=2)


async def last_is(client: Client, stream: str, serial: int) -> bool:
    """True if the newest message of a local stream has this serial number."""
    return (await client.jetstream().stream_info(stream)).state.last_seq == serial
