"""From a site's outputs to Mosquitto: results reach QoS 1 subscribers in order, from the saved position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest
from nats.js.errors import NotFoundError

from running.mosquitto import OUTPUT, Site, bridge_process, running_site
from running.promises import promise
from running.waiting import eventually
from towpath.contracts.data_plane import MESSAGE_ID_HEADER, rejected_subject
from towpath.contracts.site import BrokerKind, BrokerSpec

RESULTS = [str(number).encode() for number in range(3000)]


@pytest.fixture(params=["5", "3.1.1"])
def version(request: pytest.FixtureRequest) -> str:
    """The MQTT version that site and Mosquitto speak."""
    return request.param


@pytest.fixture
async def site(version: str, tmp_path: Path) -> AsyncIterator[Site]:
    broker = BrokerSpec(kind=BrokerKind.MOSQUITTO, version=version)
    async with running_site(tmp_path / "mesh", broker) as running:
        yield running


@asynccontextmanager
async def subscriber(site: Site, *topics: str) -> AsyncIterator[list[tuple[str, bytes]]]:
    """Subscribe to these topics with QoS 1. Yield the list of messages that arrive."""
    came: list[tuple[str, bytes]] = []
    async with site.device(identifier="subscriber") as client:
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


async def test_results_when_stored_then_arrive_once_and_in_order_on_their_topics(site: Site) -> None:
    async with site.bridged(), subscriber(site, "stats/#") as came:
        await site.emit("j", RESULTS)
        await site.agent.jetstream().publish(
            rejected_subject("jfk", "j", 1), b"bad", headers={MESSAGE_ID_HEADER: "bad"}
        )
        await eventually(lambda: len(came) >= len(RESULTS) + 1)
    assert [body for topic, body in came if topic == OUTPUT.topic] == RESULTS
    assert [body for topic, body in came if topic == OUTPUT.rejected_topic] == [b"bad"]


@pytest.mark.parametrize("version", [pytest.param("5", marks=promise("mosquitto")), "3.1.1"])
async def test_results_when_no_bridge_runs_then_come_from_where_the_last_one_stood(site: Site) -> None:
    async with subscriber(site, OUTPUT.topic) as came:
        async with site.bridged():
            await site.works()
            await site.emit("j", RESULTS[:10])
            await eventually(lambda: len(came) >= 10)
            await eventually(lambda: _moved_on(site, 10))
        await site.emit("j", RESULTS[10:20])
        async with site.bridged():
            await eventually(lambda: len(came) >= 20)
    assert [body for _, body in came] == RESULTS[:20]


async def _has_place(site: Site) -> bool:
    try:
        await site.agent.jetstream().consumer_info(OUTPUT.stream, "bridge")
    except NotFoundError:
        return False
    return True


async def _moved_on(site: Site, serial: int) -> bool:
    place = await site.agent.jetstream().consumer_info(OUTPUT.stream, "bridge")
    return place.ack_floor is not None and place.ack_floor.stream_seq == serial


async def test_results_when_bridge_is_killed_in_their_midst_then_none_is_lost_or_overtakes(
    site: Site,
) -> None:
    async with subscriber(site, OUTPUT.topic) as came:
        async with bridge_process(site.mesh.home.root):
            await eventually(lambda: _has_place(site))
            emitting = asyncio.create_task(site.emit("j", RESULTS))
            await eventually(lambda: len(came) >= 500)
        assert len(came) < len(RESULTS), "killed too late to prove anything"
        async with bridge_process(site.mesh.home.root):
            await emitting
            await eventually(lambda: _moved_on(site, len(RESULTS)))
            await eventually(lambda: len(came) >= len(RESULTS))
    bodies = [body for _, body in came]
    assert list(dict.fromkeys(bodies)) == RESULTS
    # The repeated results are one piece, from the bridge's saved position to its kill.
    repeated = [at for at in range(1, len(bodies)) if int(bodies[at]) != int(bodies[at - 1]) + 1]
    assert len(repeated) <= 1


async def test_results_when_mosquitto_is_away_then_come_when_it_returns(site: Site) -> None:
    async with site.bridged():
        await site.works()
        await site.mesh.stop("jfk-mosquitto")
        await site.emit("j", RESULTS[:20])
        await site.mesh.start("jfk-mosquitto")
        session = {"identifier": "durable", "clean_session": False}
        with_session: list[bytes] = []
        async with site.device(**session) as client:
            await client.subscribe(OUTPUT.topic, qos=1)
            await site.works()
            await site.emit("j", RESULTS[20:30])
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                with_session.append(message.payload)
                if message.payload == RESULTS[29]:
                    break
    assert with_session[-10:] == RESULTS[20:30]


async def test_output_when_made_or_deleted_while_the_bridge_works_then_is_carried_or_left(
    site: Site,
) -> None:
    async with site.bridged(), subscriber(site, "stats/#", "other/#") as came:
        await site.works()
        await site.streams.drop_output("j")
        await site.streams.set_epoch(
            "k", 1, OUTPUT.model_copy(update={"stream": "OUT_k", "topic": "other/t"})
        )
        await site.emit("k", [b"first", b"second"])
        await eventually(lambda: len(came) >= 2)
        assert site.binder.trouble() is None
        await site.streams.set_epoch("j", 1, OUTPUT)
        await site.emit("j", [b"third"])
        await eventually(lambda: len(came) >= 3)
    assert came == [("other/t", b"first"), ("other/t", b"second"), (OUTPUT.topic, b"third")]


async def test_subscriber_when_its_password_is_wrong_then_is_refused(site: Site) -> None:
    access = site.access
    wrong = aiomqtt.Client(access.mqtt_host, access.mqtt_port, username=access.device.user, password="wrong")
    with pytest.raises(aiomqtt.MqttError):
        await wrong.__aenter__()
