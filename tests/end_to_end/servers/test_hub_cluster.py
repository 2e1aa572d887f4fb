"""A hub of three servers goes on while one of them is dead, and keeps what it has acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats.errors
import pytest
from nats.aio.client import Client

from running.mesh import Mesh, running_mesh
from running.waiting import WITHIN_S, eventually
from towpath.artefacts.hub_store import STREAM as ARTEFACTS
from towpath.artefacts.hub_store import HubArtefacts, fetch
from towpath.bus import Bus, ensure_events_stream, follow_events
from towpath.bus.connecting import replicas_at
from towpath.contracts.credential import Credential
from towpath.contracts.events import EVENTS_STREAM
from towpath.contracts.links import LinkChanged, LinkConditions
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.metrics import Echo
from towpath.contracts.traces import SPANS_STREAM
from towpath.mesh.link_probe import echo
from towpath.mesh.names import hub_processes
from towpath.tasks import end
from towpath.telemetry.tracing import ensure_span_streams

NODES = hub_processes(3)

GOES_ON_S = 10.0
"""Time after the death of a server within which commands and events go on."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mesh]:
    """A mesh that encrypts, so that routes between the servers do, too."""
    with running_mesh(tmp_path / "servers", nodes=3, tls=True) as mesh:
        yield mesh


@asynccontextmanager
async def buses(mesh: Mesh) -> AsyncIterator[tuple[Bus, Bus]]:
    """Connect as the coordinator, and as the agent of jfk."""
    state, jfk = mesh.state, mesh.state.site("jfk")
    async with AsyncExitStack() as stack:

        async def connect(url: str, login: Credential) -> Bus:
            tls = state.hub_tls() if url == state.hub_url else None
            bus = await Bus.connect(url, login.user, login.password, name="test", within_s=WITHIN_S, tls=tls)
            return await stack.enter_async_context(bus)

        yield (
            await connect(state.hub_url, state.login("coordinator")),
            await connect(jfk.nats_url, jfk.login("agent")),
        )


async def made_streams(bus: Bus) -> bool:
    """Make what the hub keeps, as the coordinator does. False while the servers agree on no leader."""
    replicas = replicas_at(bus.connection)
    try:
        await ensure_events_stream(bus)
        await HubArtefacts(bus.connection).ensure(replicas)
        await ensure_span_streams(bus.connection, replicas)
    except (nats.errors.Error, OSError):
        return False
    return True


async def each_has_all(connection: Client) -> bool:
    """True if each server has all that the others have, so that another one may die."""
    jetstream = connection.jetstream(timeout=1)
    for name in (EVENTS_STREAM, ARTEFACTS, SPANS_STREAM):
        try:
            cluster = (await jetstream.stream_info(name)).cluster
        except nats.errors.Error:
            return False
        others = (cluster and cluster.replicas) or []
        if len(others) != len(NODES) - 1 or not all(other.current for other in others):
            return False
    return True


class Publisher:
    """Publishes events one after another, and remembers those that were acknowledged."""

    def __init__(self, connection: Client) -> None:
        self._jetstream = connection.jetstream(timeout=1)
        self._number = 0
        self.acknowledged: list[int] = []

    async def run(self) -> None:
        while True:
            self._number += 1
            event = LinkChanged(site="jfk", conditions=LinkConditions(delay_ms=self._number))
            with contextlib.suppress(nats.errors.Error, TimeoutError):
                await self._jetstream.publish(event.to_subject(), event.to_bytes())
                self.acknowledged.append(self._number)
            await asyncio.sleep(0.005)

    async def goes_on(self) -> None:
        """Return when one more event is acknowledged."""
        before = len(self.acknowledged)
        await eventually(lambda: len(self.acknowledged) > before, GOES_ON_S)


async def test_hub_when_each_of_its_three_servers_is_killed_then_keeps_all_it_acknowledged(
    cluster: Mesh,
) -> None:
    async with buses(cluster) as (coordinator, agent):
        await eventually(lambda: made_streams(coordinator))
        await agent.serve(Echo, echo, site="jfk")
        publisher, artefacts = Publisher(coordinator.connection), HubArtefacts(coordinator.connection)
        publishing = asyncio.create_task(publisher.run())
        digests: dict[str, str] = {}

        for name in NODES:
            await eventually(lambda: each_has_all(coordinator.connection))
            await cluster.kill(name)
            command = Echo(site="jfk", payload=name)
            await coordinator.request(command, deadline_s=GOES_ON_S, attempt_s=1.0)
            await publisher.goes_on()
            digests[name] = await artefacts.put(name.encode())
            assert await made_streams(coordinator), "a coordinator could not start now"
            await cluster.start(name)
        await end([publishing])

        stored = follow_events(coordinator, from_start=True, follow=False)
        kept = {int(body["conditions"]["delay_ms"]) async for _, body in stored}
        assert set(publisher.acknowledged) <= kept
        async with cluster.gate(HUB_SCOPE):
            for name, digest in digests.items():
                assert await fetch(agent.connection, digest) == name.encode()
