"""Latency and bandwidth between sites and hub, measured over real servers with the rights of agents."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from running.mesh import Mesh
from running.waiting import WITHIN_S, eventually
from towpath.agent.traffic import Traffic
from towpath.bus import Bus
from towpath.contracts.credential import Credential
from towpath.contracts.metrics import Echo
from towpath.mesh.link_probe import echo, probe


@asynccontextmanager
async def connected(url: str, credential: Credential) -> AsyncIterator[Bus]:
    async with await Bus.connect(
        url, credential.user, credential.password, name="test", within_s=WITHIN_S
    ) as bus:
        yield bus


async def test_ways_when_sites_and_hub_answer_then_are_measured_from_a_site(mesh: Mesh) -> None:
    jfk, lga = mesh.state.sites["jfk"], mesh.state.sites["lga"]
    async with (
        connected(jfk.nats_url, jfk.login("agent")) as here,
        connected(lga.nats_url, lga.agent) as there,
        connected(mesh.state.hub_url, mesh.state.login("collector")) as hub,
    ):
        await there.serve(Echo, echo, site="lga")
        await hub.serve(Echo, echo, site="hub")
        for other in ("lga", "hub"):
            found = {sample.metric: sample.value for sample in await probe(here, other)}
            assert found.keys() == {"link.round_trip", "link.bandwidth"}
            assert found["link.round_trip"] > 0
            assert found["link.bandwidth"] > 0


async def test_way_when_the_other_site_is_down_then_is_no_sample(mesh: Mesh) -> None:
    jfk = mesh.state.sites["jfk"]
    async with connected(jfk.nats_url, jfk.login("agent")) as here:
        assert await probe(here, "lga") == []


def received(traffic: dict[str, dict[str, float]]) -> float:
    """Return the bytes received, by the server's count."""
    return traffic["nats"]["process.network.received"]


async def test_traffic_when_users_send_and_receive_then_each_has_its_own_over_all_its_connections(
    mesh: Mesh,
) -> None:
    jfk = mesh.state.sites["jfk"]
    payload = b"x" * 100_000
    async with connected(jfk.nats_url, jfk.login("agent")) as agent:
        traffic = Traffic(agent.connection)
        before = await traffic.look()

        async def all_was_received() -> dict[str, dict[str, float]] | None:
            during = await traffic.look()
            return during if received(during) - received(before) >= len(payload) else None

        async with connected(jfk.nats_url, jfk.login("engine")) as engine:
            await engine.connection.publish("$JS.API.INFO", payload)
            await engine.connection.flush()
            # A server adds to its counts after it has answered.
            during = await eventually(all_was_received)
        sent = during["jfk.engine"]["process.network.sent"]
        assert 100_000 <= sent < 200_000
        assert received(during) - received(before) >= sent
        async with connected(jfk.nats_url, jfk.login("engine")):
            after = await traffic.look()
        assert sent <= after["jfk.engine"]["process.network.sent"] < sent + 10_000
        assert after["jfk.agent"]["process.network.received"] > 0
