"""Messages that must pass between the servers of a mesh, on real servers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiomqtt
import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    RePublish,
    StorageType,
    StreamConfig,
)

from running.mesh import REFUSED_S, Mesh, answers_request, last_is, linked, received
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.bus.connecting import flushed
from towpath.contracts import data_plane
from towpath.contracts.site import Retention
from towpath.streams.mirrors import fed_by
from towpath.streams.pages import last_serial, page
from towpath.streams.stream_view import stream_view
from towpath.streams.streams import SiteStreams


async def test_site_answers_when_hub_client_asks_its_agent(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as agent:

        async def answer(message: Msg) -> None:
            await message.respond(b"yes " + message.data)

        await agent.subscribe("towpath.v1.command.jfk.>", cb=answer)
        await flushed(agent)
        await eventually(lambda: answers_request(coordinator, "towpath.v1.command.jfk.start-job"))
        reply = await coordinator.request("towpath.v1.command.jfk.start-job", b"now", timeout=WITHIN_S)
        assert reply.data == b"yes now"


async def test_hub_keeps_events_when_sites_publish_them(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as jfk, mesh.agent("lga") as lga:
        jetstream = coordinator.jetstream()
        await jetstream.add_stream(name="EVENTS", subjects=["towpath.v1.event.>"], allow_direct=True)

        async def stored() -> bool:
            info = await jetstream.stream_info("EVENTS", subjects_filter=">")
            return len(info.state.subjects or {}) == 2

        async def publish_until_stored() -> bool:
            await jfk.publish("towpath.v1.event.site.jfk.not-kept", b"from jfk")
            await lga.publish("towpath.v1.event.site.lga.not-kept", b"from lga")
            return await stored()

        await eventually(publish_until_stored)
        assert (
            await jetstream.get_last_msg("EVENTS", "towpath.v1.event.site.lga.not-kept")
        ).data == b"from lga"
        async with mesh.operator() as operator:
            events = await operator.jetstream().subscribe(
                "towpath.v1.event.>", stream="EVENTS", ordered_consumer=True
            )
            first = await events.next_msg(timeout=WITHIN_S)
            assert first.metadata.sequence.stream == 1


async def test_coordinator_hears_heartbeat_when_agent_sends_it(mesh: Mesh) -> None:
    async with mesh.coordinator() as coordinator, mesh.agent("jfk") as jfk:

        async def heard() -> bool:
            return b"alive" in await received(
                coordinator,
                "towpath.v1.heartbeat.*",
                lambda: _repeatedly(jfk, "towpath.v1.heartbeat.jfk", b"alive"),
            )

        await eventually(heard)


async def _repeatedly(client: Client, subject: str, body: bytes) -> None:
    """Publish until cancelled: new interest takes a moment to reach the other end of a link."""
    for _ in range(5):
        await client.publish(subject, body)
        await flushed(client)
        await asyncio.sleep(0.03)


@promise("serial numbers")
async def test_mirror_when_origin_has_forgotten_its_first_events_then_keeps_serials(mesh: Mesh) -> None:
    async with mirrored(mesh, "kept", events=10, kept_from=4) as (_, reader, mirror):
        state = (await reader.jetstream().stream_info(mirror)).state
        assert (state.first_seq, state.last_seq) == (4, 10)


async def test_mirror_when_hub_and_origin_restart_then_catches_up(own_servers: Mesh) -> None:
    async with mirrored(own_servers, "caught-up", events=10) as (publish, reader, mirror):
        await own_servers.stop("hub")
        await publish(b"while the hub is away")
        await own_servers.start("hub")
        await eventually(lambda: last_is(reader, mirror, 11))

        await own_servers.stop("lga-nats")
        await own_servers.start("lga-nats")
        await publish(b"after the restart")
        await eventually(lambda: last_is(reader, mirror, 12))


@asynccontextmanager
async def mirrored(
    mesh: Mesh, job: str, *, events: int, kept_from: int = 1
) -> AsyncIterator[tuple[Callable[[bytes], Awaitable[None]], Client, str]]:
    """Mirror an output of lga at jfk. Yield a function to publish with, a client of jfk, and the mirror."""
    subject, stream, mirror = f"sink.lga.lga.{job}.1", f"OUT_{job}", f"MIRROR_lga_OUT_{job}"
    async with (
        mesh.agent("lga") as owner,
        mesh.gate("lga"),
        mesh.engine("lga") as origin,
        mesh.agent("jfk") as reader,
    ):

        async def publish(body: bytes) -> None:
            await eventually(lambda: _stored(origin, subject, body))

        await owner.jetstream().add_stream(name=stream, subjects=[subject])
        for number in range(events):
            await publish(str(number).encode())
        await owner.jetstream().purge_stream(stream, seq=kept_from)
        await reader.jetstream().add_stream(StreamConfig(name=mirror, mirror=fed_by("lga", stream, "jfk")))
        await eventually(lambda: last_is(reader, mirror, events))
        yield publish, reader, mirror


async def _stored(client: Client, subject: str, body: bytes) -> bool:
    """True if the server acknowledges. It stores the body once, even if it is sent several times."""
    try:
        once = {"Nats-Msg-Id": body.decode()}
        await client.jetstream().publish(subject, body, timeout=2, headers=once)
    except (nats.errors.Error, nats.js.errors.Error, TimeoutError):
        return False
    return True


async def test_remote_site_acknowledges_when_engine_publishes_result(mesh: Mesh) -> None:
    await linked(mesh)
    async with mesh.agent("lga") as owner, mesh.engine("jfk") as engine:
        accepted = [
            data_plane.sink_subject("lga", "jfk", "merge", 3),
            data_plane.rejected_subject("lga", "jfk", "merge", 3),
        ]
        await owner.jetstream().add_stream(name="OUT_merge", subjects=accepted)
        await eventually(lambda: _published(engine, accepted[0]))
        stored = await engine.jetstream().publish(accepted[1], b"bad", timeout=WITHIN_S)
        assert (stored.stream, stored.domain) == ("OUT_merge", "lga")
        with pytest.raises(nats.js.errors.NoStreamResponseError):
            await engine.jetstream().publish(
                data_plane.sink_subject("lga", "jfk", "merge", 2), b"zombie", timeout=2
            )


async def _published(client: Client, subject: str) -> bool:
    try:
        # One result, however often it is sent.
        await client.jetstream().publish(subject, b"result", timeout=2, headers={"Nats-Msg-Id": subject})
    except (nats.js.errors.NoStreamResponseError, nats.errors.TimeoutError):
        return False
    return True


@pytest.mark.parametrize("who", ["agent", "engine"])
async def test_stream_is_looked_up_when_it_lies_at_another_site(mesh: Mesh, who: str) -> None:
    await linked(mesh)
    async with mesh.agent("lga") as owner, mesh.gate("lga"), getattr(mesh, who)("jfk") as asker:
        await owner.jetstream().add_stream(name="OUT_looked_up", subjects=["looked.up"])

        async def found() -> bool:
            with contextlib.suppress(TimeoutError):
                return await stream_view(asker, "lga", "OUT_looked_up", timeout_s=2) is not None
            return False

        await eventually(found)


async def test_engine_reads_back_its_results_when_they_lie_at_another_site(mesh: Mesh) -> None:
    await linked(mesh)
    async with mesh.agent("lga") as owner, mesh.gate("lga"), mesh.engine("jfk") as engine:
        await owner.jetstream().add_stream(
            name="OUT_back", subjects=["sink.lga.jfk.back.1"], allow_direct=True, storage=StorageType.MEMORY
        )
        await eventually(lambda: _published(engine, "sink.lga.jfk.back.1"))
        [stored] = await page(engine, "lga", "OUT_back", 1, 10)
        assert stored.body == b"result"


@pytest.mark.parametrize("who", ["agent", "engine"])
async def test_own_jetstream_is_open_when_agent_or_engine_uses_it(mesh: Mesh, who: str) -> None:
    async with getattr(mesh, who)("jfk") as client:
        jetstream = client.jetstream()
        stream = f"LOCAL_{who}"
        await jetstream.add_stream(name=stream, subjects=[f"sink.jfk.jfk.{who}.1"], allow_direct=True)
        reader = await jetstream.pull_subscribe("", durable="reader", stream=stream)
        await client.request(f"$JS.jfk.API.STREAM.INFO.{stream}", b"", timeout=WITHIN_S)
        async with mesh.engine("jfk") as engine:
            await engine.jetstream().publish(f"sink.jfk.jfk.{who}.1", b"x")
        [message] = await reader.fetch(1, timeout=WITHIN_S)
        await message.ack_sync(timeout=WITHIN_S)
        assert (await jetstream.get_msg(stream, 1, direct=True)).data == b"x"
        await jetstream.delete_stream(stream)


async def test_engine_answers_when_agent_asks(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as agent, mesh.engine("jfk") as engine:

        async def answer(message: Msg) -> None:
            await message.respond(b"running")

        await engine.subscribe("towpath.v1.engine.jfk.>", cb=answer)
        await flushed(engine)
        assert (
            await agent.request("towpath.v1.engine.jfk._shared.list-queries", b"{}", timeout=WITHIN_S)
        ).data == b"running"


async def test_operator_reads_results_when_they_lie_at_a_site(mesh: Mesh) -> None:
    await linked(mesh)
    async with mesh.agent("jfk") as owner, mesh.operator() as operator:
        await owner.jetstream().add_stream(
            name="OUT_read", subjects=["sink.jfk.jfk.read.1"], allow_direct=True
        )
        async with mesh.engine("jfk") as engine:
            for number in range(3):
                await engine.jetstream().publish("sink.jfk.jfk.read.1", str(number).encode())
        far = operator.jetstream(domain="jfk")
        assert (await far.stream_info("OUT_read")).state.messages == 3
        assert (await far.get_msg("OUT_read", 2, direct=True)).data == b"1"
        ordered = await far.subscribe("", stream="OUT_read", ordered_consumer=True)
        assert [(await ordered.next_msg(timeout=WITHIN_S)).data for _ in range(3)] == [b"0", b"1", b"2"]
        pulled = await far.pull_subscribe(
            "", stream="OUT_read", config=ConsumerConfig(ack_policy=AckPolicy.NONE)
        )
        assert [m.data for m in await pulled.fetch(3, timeout=WITHIN_S)] == [b"0", b"1", b"2"]


async def test_device_event_is_stored_once_and_at_its_site_only_when_published(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as jfk, mesh.agent("lga") as lga:
        for agent, site in ((jfk, "jfk"), (lga, "lga")):
            await SiteStreams(agent, site, Retention()).ensure_in()
        before = await last_serial(jfk, "jfk", data_plane.IN_STREAM)
        there = await last_serial(lga, "lga", data_plane.IN_STREAM)
        async with mesh.device("jfk") as device:
            await device.publish("site/departures", b"{}", qos=1)
            await device.publish("elsewhere/departures", b"{}", qos=0)
            await device.publish("site/departures", b"{}", qos=1)
        await eventually(lambda: last_is(jfk, data_plane.IN_STREAM, before + 2))
        stored = await jfk.jetstream().get_msg(data_plane.IN_STREAM, before + 2)
        assert stored.subject == "site.departures"
        await asyncio.sleep(REFUSED_S)
        assert await last_is(lga, data_plane.IN_STREAM, there)


@promise("mqtt")
async def test_results_reach_mqtt_session_when_subscriber_was_away(mesh: Mesh) -> None:
    def subscriber() -> aiomqtt.Client:
        return mesh.device("jfk", identifier="board", clean_session=False)

    async with mesh.agent("jfk") as agent, mesh.engine("jfk") as engine:
        await SiteStreams(agent, "jfk", Retention()).ensure_in()
        await agent.jetstream().add_stream(
            StreamConfig(
                name="OUT_board",
                subjects=["sink.jfk.jfk.board.1"],
                republish=RePublish(
                    src="sink.jfk.jfk.board.1",
                    dest=data_plane.MQTT_DELIVERY + data_plane.device_subject("stats/hourly"),
                ),
            )
        )
        async with subscriber() as board:
            await board.subscribe("stats/#", qos=1)
        await eventually(lambda: _away(agent))
        key, value = data_plane.MQTT_QOS_HEADER
        for number in range(3):
            body = str(number).encode()
            await engine.jetstream().publish("sink.jfk.jfk.board.1", body, headers={key: value})
        async with subscriber() as board:
            async with asyncio.timeout(WITHIN_S):
                got = [(str(m.topic), m.payload, m.qos) async for m in _take(board, 3)]
        assert got == [("stats/hourly", str(number).encode(), 1) for number in range(3)]


async def _away(client: Client) -> bool:
    """True if the site's server has noticed that no MQTT subscriber is there any more."""
    return not any(c.push_bound for c in await client.jetstream().consumers_info("$MQTT_msgs"))


async def _take(client: aiomqtt.Client, count: int) -> AsyncIterator[aiomqtt.Message]:
    messages = aiter(client.messages)
    for _ in range(count):
        yield await anext(messages)


async def test_device_may_subscribe_often_when_each_is_a_wildcard(mesh: Mesh) -> None:
    async with mesh.device("jfk") as device:
        for number in range(20):
            [code] = await device.subscribe(f"stats/{number}/#", qos=1)
            assert not getattr(code, "is_failure", True)


async def test_stream_when_it_has_more_than_a_thousand_consumers_then_takes_more(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as agent:
        jetstream = agent.jetstream()
        stream = await jetstream.add_stream(name="CROWD", subjects=["crowd.>"], storage=StorageType.MEMORY)
        config = ConsumerConfig(mem_storage=True, ack_policy=AckPolicy.NONE, inactive_threshold=60)
        try:
            for _ in range(11):
                await asyncio.gather(*(jetstream.add_consumer("CROWD", config) for _ in range(100)))
            assert (await jetstream.stream_info("CROWD")).state.consumer_count == 1100
        finally:
            await jetstream.delete_stream(stream.config.name or "")
