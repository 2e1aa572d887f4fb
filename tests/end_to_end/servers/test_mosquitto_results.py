"""From a site's outputs to Mosquitto: results reach QoS 1 subscribers in order, from the saved position."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.js.errors import NotFoundError

from running.mosquitto import OUTPUT, Site, bridge_process, running_site, subscriber
from running.promises import promise
from running.waiting import eventually
from towpath.contracts.data_plane import broadcast_subject
from towpath.contracts.site import BrokerKind, BrokerSpec, Retention
from towpath.streams.broadcasts import ensure_broadcasts, store_broadcast
from towpath.streams.streams import SiteStreams

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


async def test_broadcast_when_the_bridge_carries_it_then_comes_on_its_own_topic(site: Site) -> None:
    streams = SiteStreams(site.agent, "jfk", Retention())
    async with subscriber(site, "broadcast/lamps/+") as came, site.bridged():
        await site.works()
        await ensure_broadcasts(streams)
        await store_broadcast(streams, broadcast_subject("lamps", "b1"), b"off", 60)
        await store_broadcast(streams, broadcast_subject("lamps", "b2"), b"on", 60)
        await eventually(lambda: len(came) >= 2)
    assert came == [("broadcast/lamps/b1", b"off"), ("broadcast/lamps/b2", b"on")]
