"""An attacker who has taken a site over cannot reach beyond it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import nats
import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from running.mesh import REFUSED_S, Mesh, last_is, received, running_mesh
from running.promises import promise
from running.raw_leaf import raw_leaf
from running.waiting import WITHIN_S, eventually
from towpath.contracts import data_plane
from towpath.contracts.credential import Credential
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site import Retention
from towpath.mesh.nats_config import ACCOUNT, site_config
from towpath.streams.streams import SiteStreams


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with running_mesh(tmp_path_factory.mktemp("mesh")) as running:
        yield running


PRECIOUS = ResolvedOutput(
    site="jfk", stream="OUT_precious", topic="precious", rejected_topic="precious/rejected"
)
ROGUE = Credential(user="root", password="an attacker with root makes the rules")


@pytest.fixture
async def rogue(mesh: Mesh) -> AsyncIterator[Client]:
    """Open a client without any restriction at the server of site lga, as its owner could make one."""
    config = mesh.home.nats("lga") / "nats.conf"
    text = json.loads(site_config(mesh.state, "lga", mesh.home))
    text["accounts"][ACCOUNT]["users"].append(ROGUE.model_dump())
    await mesh.stop("lga-nats")
    config.write_text(json.dumps(text))
    await mesh.start("lga-nats")
    url = mesh.state.sites["lga"].nats_url
    async with mesh.client(url, ROGUE, inbox_prefix="_INBOX.lga.agent") as client:
        async with mesh.coordinator() as coordinator:

            async def heard() -> bool:
                return bool(
                    await received(
                        coordinator,
                        "towpath.v1.heartbeat.lga",
                        lambda: client.publish("towpath.v1.heartbeat.lga", b"its own: allowed"),
                    )
                )

            await eventually(heard)
        yield client


async def test_rogue_site_is_not_heard_when_it_speaks_for_another(mesh: Mesh, rogue: Client) -> None:
    async with mesh.coordinator() as coordinator:
        for subject in ("towpath.v1.heartbeat.jfk", "towpath.v1.command.coordinator.remove"):
            forged = lambda subject=subject: _publish(rogue, subject)  # noqa: E731
            assert await received(coordinator, subject, forged) == []


@promise("restricted")
async def test_rogue_site_is_not_heard_when_it_commands_another(mesh: Mesh, rogue: Client) -> None:
    async with mesh.agent("jfk") as agent:
        subject = "towpath.v1.command.jfk.stop-job"
        assert await received(agent, subject, lambda: _publish(rogue, subject)) == []


async def test_rogue_site_hears_nothing_when_another_is_commanded_and_answers(
    mesh: Mesh, rogue: Client
) -> None:
    overheard: list[str] = []

    async def on_message(message: Msg) -> None:
        overheard.append(message.subject)
        await message.respond(b"forged")

    async def answer(message: Msg) -> None:
        await message.respond(b"honest")

    for subject in ("towpath.v1.command.>", "_INBOX.>", ">"):
        await rogue.subscribe(subject, cb=on_message)
    await rogue.flush()
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:
        await agent.subscribe("towpath.v1.command.jfk.>", cb=answer)
        await agent.flush()

        async def answered() -> bool:
            try:
                reply = await coordinator.request("towpath.v1.command.jfk.start-job", b"{}", timeout=1)
            except nats.errors.NoRespondersError:
                return False
            assert reply.data == b"honest"
            return True

        await eventually(answered)
        await asyncio.sleep(REFUSED_S)
        assert [s for s in overheard if s.startswith(("towpath.", "_INBOX.hub"))] == []


@pytest.mark.parametrize("call", ["STREAM.DELETE.OUT_precious", "STREAM.PURGE.OUT_precious"])
async def test_rogue_site_cannot_destroy_when_the_stream_is_anothers(
    mesh: Mesh, rogue: Client, call: str
) -> None:
    async with mesh.agent("jfk") as agent, mesh.engine("jfk") as engine:
        await agent.jetstream().add_stream(name="OUT_precious", subjects=["sink.jfk.jfk.precious.1"])
        await engine.jetstream().publish("sink.jfk.jfk.precious.1", b"x")
        await _publish(rogue, f"$JS.jfk.API.{call}")
        await asyncio.sleep(REFUSED_S)
        assert (await agent.jetstream().stream_info("OUT_precious")).state.messages == 1
        await agent.jetstream().delete_stream("OUT_precious")


@pytest.mark.parametrize("owner", ["jfk", "hub", "lga"])
async def test_rogue_site_stores_no_result_when_another_owns_the_job(
    mesh: Mesh, rogue: Client, owner: str
) -> None:
    """Under the owner's name its link refuses it, and under its own the output does."""
    async with mesh.agent("jfk") as agent:
        streams = SiteStreams(agent, "jfk", Retention())
        await streams.outputs.set_epoch("precious", 2, PRECIOUS, owner="hub" if owner == "hub" else "jfk")
        for aside in (str, data_plane.shadow_subject):
            for subject in (data_plane.sink_subject, data_plane.rejected_subject):
                await _publish(rogue, aside(subject("jfk", owner, "precious", 2)))
        await asyncio.sleep(REFUSED_S)
        for stream in (PRECIOUS.stream, data_plane.rejected_stream(PRECIOUS.stream)):
            assert await last_is(agent, stream, 0)

        await streams.outputs.set_epoch("precious", 3, PRECIOUS, owner="lga")
        await _publish(rogue, data_plane.sink_subject("jfk", "lga", "precious", 3))
        await eventually(lambda: last_is(agent, PRECIOUS.stream, 1))  # The job is its own now.
        await streams.outputs.drop(PRECIOUS.stream)


async def test_rogue_site_cannot_reach_devices_or_sessions_of_another(mesh: Mesh, rogue: Client) -> None:
    async with mesh.agent("jfk") as agent, mesh.device("jfk") as device:
        await SiteStreams(agent, "jfk", Retention()).ensure_in()
        await device.subscribe("stats/hourly", qos=1)
        for subject in (
            "$MQTT.msgs.stats.hourly",
            "towpath.mqtt.stats.hourly",
            "$MQTT.msgs.site.departures",
            "site.departures",
        ):
            await _publish(rogue, subject)
        await asyncio.sleep(REFUSED_S)
        assert await last_is(agent, "$MQTT_msgs", 0)
        assert await last_is(agent, data_plane.IN_STREAM, 0)


async def test_rogue_site_when_it_acknowledges_for_another_then_nothing_is_acknowledged(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as agent, mesh.engine("jfk") as engine:
        jetstream = agent.jetstream()
        await jetstream.add_stream(name="OUT_kept", subjects=["sink.jfk.jfk.kept.1"])
        await engine.jetstream().publish("sink.jfk.jfk.kept.1", b"x")
        reader = await jetstream.pull_subscribe("", durable="reader", stream="OUT_kept")
        [unacknowledged] = await reader.fetch(1, timeout=WITHIN_S)
        async with raw_leaf(mesh.state, "lga") as leaf:
            await leaf.publish(unacknowledged.reply, b"+ACK")
        await asyncio.sleep(REFUSED_S)
        assert (await jetstream.consumer_info("OUT_kept", "reader")).num_ack_pending == 1


async def _publish(client: Client, subject: str) -> None:
    await client.publish(subject, b"{}", headers={"Nmqtt-Pub": "1"})
    await client.flush()
