"""From a Mosquitto into the IN stream: every device event is stored once and in order, despite failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from running.mosquitto import Site, bridge_process, running_site, send, subscribed
from running.promises import promise
from running.waiting import eventually
from towpath.contracts.data_plane import IN_STREAM
from towpath.contracts.site import BrokerKind, BrokerSpec
from towpath.streams.log_reader import Access, LogReader
from towpath.streams.repeats import Repeats

EVENTS = 6_000


def events(kind: str) -> list[bytes]:
    return [b"1" if kind == "all equal" else str(number).encode() for number in range(EVENTS)]


@pytest.fixture(params=["5", "3.1.1"])
def version(request: pytest.FixtureRequest) -> str:
    """The MQTT version that site and Mosquitto speak."""
    return request.param


@pytest.fixture
async def site(version: str, tmp_path: Path) -> AsyncIterator[Site]:
    broker = BrokerSpec(kind=BrokerKind.MOSQUITTO, version=version)
    async with running_site(tmp_path / "mesh", broker) as running:
        yield running


async def test_topics_that_the_stream_cannot_hold_when_published_then_are_counted_and_hold_up_nothing(
    site: Site,
) -> None:
    async with site.bridged():
        await site.works()
        async with site.device() as device:
            for topic in ("site/a.b", "site/a b", "site//a", "site/good"):
                await device.publish(topic, b"x", qos=1)
        await site.holds(1)
    assert [m.subject for m in await site.stored()] == ["site.good"]


@pytest.mark.parametrize("version", [pytest.param("5", marks=promise("mosquitto")), "3.1.1"])
async def test_events_when_no_bridge_runs_then_wait_for_the_next_one(site: Site) -> None:
    async with site.bridged():
        await site.works()
    bodies = [str(number).encode() for number in range(2000)]
    await send(site, "site/a", bodies)
    assert await site.count() == 0
    async with site.bridged():
        await site.holds(len(bodies))
    assert [m.body for m in await site.stored()] == bodies


@pytest.mark.parametrize("version", ["5"])
async def test_event_when_its_device_names_it_by_mqtt_5_and_sends_it_again_then_counts_once(
    site: Site, tmp_path: Path
) -> None:
    async with site.bridged():
        await site.works()
        async with site.device(protocol=aiomqtt.ProtocolVersion.V5) as device:
            for name, body in (("a-1", b"one"), ("a-2", b"two"), ("a-1", b"one, sent again")):
                properties = Properties(PacketTypes.PUBLISH)
                properties.UserProperty = [("sent-by", "a"), ("event-id", name)]
                await device.publish("site/a", body, qos=1, properties=properties)
        await site.holds(3)

    login = site.access.login("engine")
    credentials = tmp_path / "engine.json"
    credentials.write_text(json.dumps({"user": login.user, "password": login.password}))
    reader = LogReader(Access(site.access.nats_url, str(credentials)))
    [events] = await asyncio.to_thread(lambda: list(reader.read(IN_STREAM, 0, 3)))
    assert [each.payload for each in Repeats(["id"], 10).first_ones(events)] == [b"one", b"two"]


@pytest.mark.parametrize("payload", ["numbers", "all equal"])
async def test_events_when_bridge_is_killed_in_their_midst_then_are_stored_once_and_in_order(
    site: Site, payload: str
) -> None:
    async with bridge_process(site.mesh.home.root):
        await eventually(lambda: subscribed(site))
        # The last quarter is held back, so that even a fast bridge is killed in the middle.
        sending = asyncio.create_task(send(site, "site/a", events(payload)[: EVENTS * 3 // 4]))
        await site.holds(EVENTS // 4)
    async with bridge_process(site.mesh.home.root):
        await site.holds(EVENTS // 2)
    async with bridge_process(site.mesh.home.root):
        await sending
        await send(site, "site/a", events(payload)[EVENTS * 3 // 4 :])
        await site.holds(EVENTS)
        await send(site, "site/end", [b"end"])
        await site.holds(EVENTS + 1)
    assert [m.body for m in await site.stored()] == [*events(payload), b"end"]


async def test_events_when_mosquitto_restarts_in_their_midst_then_go_on(site: Site) -> None:
    async with site.bridged():
        await site.works()
        sending = asyncio.create_task(send(site, "site/a", events("numbers")[: EVENTS * 3 // 4]))
        await site.holds(EVENTS // 4)
        await site.mesh.stop("jfk-mosquitto")
        await eventually(lambda: _troubled(site))
        await site.mesh.start("jfk-mosquitto")
        await sending
        await send(site, "site/a", events("numbers")[EVENTS * 3 // 4 :])
        await send(site, "site/end", [b"end"])
        await eventually(lambda: site.ends_with(b"end"))
    # A device without an acknowledgement sends its event again: only first copies show the order.
    stored = [m.body for m in await site.stored()]
    assert list(dict.fromkeys(stored)) == [*events("numbers"), b"end"]


async def test_events_when_the_sites_server_restarts_in_their_midst_then_are_stored_once_and_in_order(
    site: Site,
) -> None:
    async with site.bridged():
        await site.works()
        sending = asyncio.create_task(send(site, "site/a", events("all equal")))
        await site.holds(EVENTS // 4)
        await site.mesh.kill("jfk-nats")
        await site.mesh.start("jfk-nats")
        await sending
        await site.holds(EVENTS)
        await send(site, "site/end", [b"end"])
        await site.holds(EVENTS + 1)
    assert [m.body for m in await site.stored()] == [*events("all equal"), b"end"]


async def _troubled(site: Site) -> bool:
    return site.binder.trouble() is not None
