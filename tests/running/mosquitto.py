"""A site with its server and a Mosquitto; the bridge between them in this process, or in one to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiomqtt
import nats
from nats.aio.client import Client

from running.mesh import Mesh
from running.places import ROOT
from running.servers import Server, free_port
from running.waiting import eventually
from towpath.brokers.binder import BrokerBinder
from towpath.brokers.binders import binder_of
from towpath.contracts.data_plane import IN_STREAM, MESSAGE_ID_HEADER, output_stream, sink_subject
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.message import new_identifier
from towpath.contracts.site import BrokerKind, BrokerSpec, MeshSpec, SiteSpec
from towpath.lab.workload.replay import Replay
from towpath.mesh.binaries import mosquitto_binary
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import site_server
from towpath.mesh.site_broker import site_broker
from towpath.mesh.state import MeshState, SiteAccess
from towpath.streams.pages import StoredMessage, read_after
from towpath.streams.streams import SiteStreams

SITE = "jfk"
OUTPUT = ResolvedOutput(
    site=SITE, stream=output_stream("j"), topic="stats/hourly", rejected_topic="stats/bad"
)


@dataclass
class Foreign:
    """A Mosquitto that the agent does not run, with one user, `plant`, and its own configuration."""

    server: Server
    directory: Path
    password: str = "secret"
    tls: dict[str, str] = field(default_factory=dict)

    @property
    def spec(self) -> BrokerSpec:
        return BrokerSpec(
            kind=BrokerKind.MOSQUITTO,
            host="127.0.0.1",
            port=self.server.port,
            user="plant",
            password_file=str(self.password_file),
        )

    @property
    def password_file(self) -> Path:
        return self.directory / "plant.password"

    async def end(self) -> None:
        """Stop it in order: it writes what it has."""
        assert self.server.process is not None
        self.server.process.terminate()
        await self.server.process.wait()


def _made_passwords(directory: Path) -> Path:
    directory.mkdir(parents=True)
    passwords = directory / "passwords"
    passwords.touch(mode=0o600)
    subprocess.run(["mosquitto_passwd", "-b", str(passwords), "plant", "secret"], check=True)
    return passwords


@asynccontextmanager
async def foreign_mosquitto(directory: Path, *settings: str) -> AsyncIterator[Foreign]:
    port = free_port()
    passwords = await asyncio.to_thread(_made_passwords, directory)
    lines = [
        f"listener {port} 127.0.0.1",
        *settings,
        "allow_anonymous false",
        f"password_file {passwords}",
        "persistence true",
        f"persistence_location {directory}/",
        "max_queued_messages 0",
        f"user {pwd.getpwuid(os.geteuid()).pw_name}",
    ]
    (directory / "mosquitto.conf").write_text("\n".join(lines) + "\n")
    foreign = Foreign(Server([mosquitto_binary(), "-c", str(directory / "mosquitto.conf")], port), directory)
    foreign.password_file.write_text("secret\n")
    await foreign.server.start()
    try:
        yield foreign
    finally:
        await foreign.server.kill()


@dataclass
class Site:
    """One site: its server runs; the test starts broker and bridge."""

    mesh: Mesh
    access: SiteAccess
    agent: Client
    binder: BrokerBinder

    @property
    def streams(self) -> SiteStreams:
        return SiteStreams(self.agent, SITE, self.access.spec.retention)

    def device(self, **options: object) -> aiomqtt.Client:
        """Return a client that connects as `towpath access` says."""
        return self.mesh.device(SITE, **options)

    async def stored(self) -> list[StoredMessage]:
        """Return all messages in IN."""
        return await read_after(self.agent, SITE, IN_STREAM, 0)

    async def count(self) -> int:
        return (await self.agent.jetstream().stream_info(IN_STREAM)).state.messages

    async def holds(self, count: int) -> None:
        """Wait until IN holds `count` events."""

        async def enough() -> bool:
            return await self.count() >= count

        await eventually(enough)

    async def ends_with(self, body: bytes) -> bool:
        """Tell if the newest event in IN is this one."""
        jetstream = self.agent.jetstream()
        last = (await jetstream.stream_info(IN_STREAM)).state.last_seq
        return (await jetstream.get_msg(IN_STREAM, last)).data == body

    async def emit(self, job: str, bodies: list[bytes]) -> None:
        """Publish results into the output as an engine does."""
        for number, body in enumerate(bodies):
            identity = {MESSAGE_ID_HEADER: f"{job}.{body.decode()}.{number}", "Nmqtt-Pub": "1"}
            await self.agent.jetstream().publish(sink_subject(SITE, SITE, job, 1), body, headers=identity)

    @asynccontextmanager
    async def bridged(self) -> AsyncIterator[None]:
        """The bridge at work in this process, if there is one. Results from now on are the broker's, too."""
        tasks = [asyncio.create_task(self.binder.mirror()), asyncio.create_task(self.binder.publish())]
        record = self.mesh.home.broker(SITE) / "bridge.json"
        try:
            await eventually(lambda: record.exists() or all(task.done() for task in tasks))
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def works(self) -> None:
        """Wait until the bridge reports that it works."""

        async def well() -> bool:
            return self.binder.trouble() is None

        await eventually(well)


@asynccontextmanager
async def running_site(directory: Path, broker: BrokerSpec) -> AsyncIterator[Site]:
    """Run a site's server, with its own Mosquitto if the broker has no address."""
    home = Home(directory)
    state = provision(home, MeshSpec(sites=[SiteSpec(name=SITE, broker=broker)]))
    access = state.site(SITE)
    binder = binder_of(access, home)
    specs = [site_server(state, SITE, home), *binder.create()]
    mesh = Mesh(state, home, {spec.name: spec for spec in specs})
    try:
        for name in mesh.specs:
            await mesh.start(name)
        async with mesh.agent(SITE) as agent:
            site = Site(mesh, access, agent, binder)
            await eventually(lambda: _made(site))
            yield site
    finally:
        for name in mesh.specs:
            await mesh.kill(name)


async def _made(site: Site) -> bool:
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await site.streams.ensure_in()
        await site.streams.outputs.set_epoch("j", 1, OUTPUT, owner="jfk")
        return True
    return False


@asynccontextmanager
async def subscriber(
    site: Site, *topics: str, keeps_session: bool = False
) -> AsyncIterator[list[tuple[str, bytes]]]:
    """Subscribe with QoS 1, and collect the messages of these topics."""
    came: list[tuple[str, bytes]] = []
    async with site.device(identifier="subscriber", clean_session=not keeps_session) as client:
        await client.subscribe([(topic, 1) for topic in topics])

        async def receive() -> None:
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                came.append((message.topic.value, message.payload))

        receiving = asyncio.create_task(receive())
        try:
            yield came
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


@dataclass(frozen=True)
class _Event:
    payload: bytes
    at: float = 0.0


async def send(site: Site, topic: str, bodies: Sequence[bytes]) -> None:
    """Publish all bodies with QoS 1, in order, even if the broker restarts."""
    broker = site_broker(site.access, site.access.device)
    replay = Replay(broker, topic, f"device-{topic.replace('/', '-')}")
    await replay.run(map(_Event, bodies))


async def subscribed(site: Site) -> bool:
    """True if a bridge has ever subscribed: from then on nothing is lost."""
    probe = new_identifier().encode()
    await send(site, "site/probe", [probe])
    if await site.count() == 0:
        return False
    # Earlier probes may still be on their way; behind the newest there is none.
    await eventually(lambda: _ends_with(site, probe))
    await site.agent.jetstream().purge_stream(IN_STREAM)
    return True


async def _ends_with(site: Site, body: bytes) -> bool:
    return (await site.stored())[-1].body == body


@asynccontextmanager
async def bridge_process(home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a bridge in a process of its own. Kill it in the end, if not before."""
    command = (sys.executable, "-m", "running.mosquitto", str(home))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _run_bridge(home: Home) -> None:
    binder = binder_of(MeshState.load(home).site(SITE), home)
    await asyncio.gather(binder.mirror(), binder.publish())


if __name__ == "__main__":
    import logging

    logging.basicConfig(level=logging.INFO)
    asyncio.run(_run_bridge(Home(Path(sys.argv[1]))))
