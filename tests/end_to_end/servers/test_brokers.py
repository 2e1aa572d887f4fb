"""Every broker of the registry, with real devices and subscribers: events are kept, and results arrive.

`tests/unit/broker_suite.py` has what needs no broker. What concerns Mosquitto alone, such as a killed bridge,
stands in the files beside this one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import aiomqtt
import pytest

from running.mosquitto import OUTPUT, Site, running_site, subscriber
from running.waiting import eventually
from towpath.brokers.binders import BINDERS
from towpath.contracts.data_plane import MESSAGE_ID_HEADER, rejected_subject
from towpath.contracts.site import BrokerKind, BrokerSpec

RESULTS = [str(number).encode() for number in range(3000)]

VERSIONS: Mapping[BrokerKind, Sequence[str]] = {
    BrokerKind.NATS: ["3.1.1"],
    BrokerKind.MOSQUITTO: ["5", "3.1.1"],
}
"""Of MQTT, that the site speaks with the broker. A new broker has a line here."""


@pytest.fixture(params=[(kind, version) for kind in BINDERS for version in VERSIONS[kind]], ids="-".join)
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    """A site with its broker, of each kind and version."""
    kind, version = request.param
    async with running_site(tmp_path / "mesh", BrokerSpec(kind=kind, version=version)) as running:
        yield running


async def test_events_when_published_then_are_in_the_stream_as_they_were(site: Site) -> None:
    payloads = [b"", b"\x00\xff\xfe", "grün".encode(), b"{}"]
    async with site.bridged():
        await site.works()
        async with site.device() as device:
            for payload in payloads:
                await device.publish("site/gate/a", payload, qos=1)
        await site.holds(4)
    assert [(m.subject, m.body) for m in await site.stored()] == [("site.gate.a", each) for each in payloads]


async def test_equal_payloads_when_published_in_a_row_then_are_all_kept(site: Site) -> None:
    async with site.bridged():
        await site.works()
        async with site.device() as device:
            for _ in range(300):
                await device.publish("site/constant", b"1", qos=1)
        await site.holds(300)
    assert await site.count() == 300


async def test_retained_message_when_subscribed_again_then_is_stored_as_the_one_event_it_was(
    site: Site,
) -> None:
    for round_ in (1, 2):
        async with site.bridged():
            await site.works()
            async with site.device() as device:
                await device.publish("site/retained", b"event", qos=1, retain=True)
                await device.publish("site/marker", b"", qos=1)
            await site.holds(2 * round_)
    bodies = [m.body for m in await site.stored() if m.subject == "site.retained"]
    assert bodies == [b"event", b"event"]


async def test_results_when_stored_then_arrive_once_and_in_order_on_their_topics(site: Site) -> None:
    async with site.bridged(), subscriber(site, "stats/#") as came:
        await site.emit("j", RESULTS)
        identity = {MESSAGE_ID_HEADER: "bad", "Nmqtt-Pub": "1"}
        await site.agent.jetstream().publish(rejected_subject("jfk", "jfk", "j", 1), b"bad", headers=identity)
        await eventually(lambda: len(came) >= len(RESULTS) + 1)
    assert [body for topic, body in came if topic == OUTPUT.topic] == RESULTS
    assert [body for topic, body in came if topic == OUTPUT.rejected_topic] == [b"bad"]


async def test_results_when_a_subscriber_with_a_session_was_away_then_come_when_it_returns(
    site: Site,
) -> None:
    async with site.bridged():
        await site.works()
        async with subscriber(site, OUTPUT.topic, keeps_session=True) as came:
            await site.emit("j", RESULTS[:10])
            await eventually(lambda: len(came) >= 10)
        await site.emit("j", RESULTS[10:20])
        async with subscriber(site, OUTPUT.topic, keeps_session=True) as came_later:
            # QoS 1 may repeat and reorder what was on its way when the subscriber left.
            await eventually(lambda: {body for _, body in came_later} >= set(RESULTS[10:20]))
    assert {body for _, body in [*came, *came_later]} == set(RESULTS[:20])


async def test_output_when_made_or_deleted_while_the_bridge_works_then_is_carried_or_left(
    site: Site,
) -> None:
    async with site.bridged(), subscriber(site, "stats/#", "other/#") as came:
        await site.works()
        await site.streams.outputs.drop("j")
        other = OUTPUT.model_copy(update={"stream": "OUT_k", "topic": "other/t"})
        await site.streams.outputs.set_epoch("k", 1, other, owner="jfk")
        await site.emit("k", [b"first", b"second"])
        await eventually(lambda: len(came) >= 2)
        assert site.binder.trouble() is None
        await site.streams.outputs.set_epoch("j", 1, OUTPUT, owner="jfk")
        await site.emit("j", [b"again"])
        await eventually(lambda: len(came) >= 3)
    assert came == [("other/t", b"first"), ("other/t", b"second"), (OUTPUT.topic, b"again")]


async def test_subscriber_when_its_password_is_wrong_then_is_refused(site: Site) -> None:
    access = site.access
    wrong = aiomqtt.Client(access.mqtt_host, access.mqtt_port, username=access.device.user, password="wrong")
    with pytest.raises(aiomqtt.MqttError):
        await wrong.__aenter__()
