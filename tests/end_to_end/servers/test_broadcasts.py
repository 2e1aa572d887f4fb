"""Broadcasts on real servers: each site gets one once, also later, and none that has expired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import aiomqtt
from nats.js.api import RePublish

from running.coordinator import second_coordinator
from running.mesh import REFUSED_S, Mesh, linked
from running.waiting import WITHIN_S, eventually
from towpath.agent.broadcasts import Broadcasts
from towpath.bus import Bus
from towpath.contracts.broadcast import (
    BroadcastChanged,
    BroadcastState,
    BroadcastView,
    DeliverBroadcast,
    SendBroadcast,
    ShowBroadcast,
)
from towpath.contracts.data_plane import (
    BROADCAST_STREAM,
    BROADCAST_SUBJECTS,
    MQTT_STREAM,
    TIME_TO_LIVE_HEADER,
)
from towpath.contracts.message import Event, now
from towpath.contracts.site import Retention, SiteState
from towpath.coordinator.broadcasts import BroadcastCommands
from towpath.coordinator.situation import Situation
from towpath.streams.redelivery import Redelivery
from towpath.streams.streams import SiteStreams
from towpath.tasks import end

BOTH = [("jfk", BroadcastState.DELIVERED), ("lga", BroadcastState.DELIVERED)]


class AlwaysUp:
    """Sites as a coordinator sees them that has not noticed yet which of them are away."""

    names = ("jfk", "lga")

    def check_known(self, site: str, field: str) -> None:
        assert site in self.names

    def state(self, site: str) -> SiteState:
        return SiteState.UP


@dataclass
class Coordinator:
    """The part of a coordinator that broadcasts, and what it has told."""

    commands: BroadcastCommands
    bus: Bus
    told: list[Event] = field(default_factory=list)

    async def send(self, payload: str, **fields: Any) -> BroadcastView:
        """Send it as a user does."""
        command = SendBroadcast(topic="lamps", payload=payload, **fields)
        return await self.bus.request(command, deadline_s=WITHIN_S)

    async def states(self, broadcast: str) -> list[tuple[str, BroadcastState]]:
        """Return the state at each site."""
        view = await self.commands.show(ShowBroadcast(broadcast=broadcast))
        return [(each.site, each.state) for each in view.sites]


@asynccontextmanager
async def coordinating(mesh: Mesh) -> AsyncIterator[Coordinator]:
    """Run it within the block. It ends as if it were killed."""
    login = mesh.state.login("coordinator")
    told: list[Event] = []

    async def tell(event: Event) -> None:
        told.append(event)

    async with (
        await Bus.connect(mesh.state.hub_url, login.user, login.password, name="coordinator") as bus,
        second_coordinator(mesh) as registry,
    ):
        commands = BroadcastCommands(
            Situation(registry, cast("Any", AlwaysUp()), bus, cast("Any", None)), tell
        )
        await commands.serve(bus)
        task = asyncio.create_task(commands.watch())
        try:
            yield Coordinator(commands, bus, told)
        finally:
            await end([task])


@asynccontextmanager
async def agent(mesh: Mesh, site: str) -> AsyncIterator[SiteStreams]:
    """Run the part of a site's agent that delivers."""
    access = mesh.state.sites[site]
    login = access.login("agent")
    async with await Bus.connect(access.nats_url, login.user, login.password, name=f"agent-{site}") as bus:
        streams = SiteStreams(bus.connection, site, Retention())
        await streams.ensure_in()
        await bus.serve(DeliverBroadcast, Broadcasts(streams).deliver, site=site)
        yield streams


@asynccontextmanager
async def lamp(mesh: Mesh, site: str, qos: int = 1) -> AsyncIterator[aiomqtt.Client]:
    """Connect a device with a session, which subscribes to the broadcasts of a topic."""
    options: dict[str, Any] = {"identifier": f"lamp{qos}", "clean_session": False} if qos else {}
    async with mesh.device(site, **options) as device:
        await device.subscribe("broadcast/lamps/+", qos=qos)
        yield device


async def heard(device: aiomqtt.Client, count: int) -> list[bytes]:
    """Return what a device receives: this many messages, and any that comes soon after."""
    found = [await _next(device, WITHIN_S) for _ in range(count)]
    while (more := await _next(device, REFUSED_S)) is not None:
        found.append(more)
    return [payload for payload in found if payload is not None]


async def _next(device: aiomqtt.Client, within_s: float) -> bytes | None:
    try:
        async with asyncio.timeout(within_s):
            return cast("bytes", (await anext(device.messages)).payload)
    except TimeoutError:
        return None


def settled(events: Sequence[Event]) -> list[tuple[str, BroadcastState]]:
    """Return what was told, by site."""
    return sorted((each.site, each.state) for each in events if isinstance(each, BroadcastChanged))


async def test_broadcast_when_all_sites_are_there_then_every_device_gets_it_once_under_its_id(
    own_servers: Mesh,
) -> None:
    async with (
        agent(own_servers, "jfk"),
        agent(own_servers, "lga"),
        coordinating(own_servers) as coordinator,
        lamp(own_servers, "jfk") as at_jfk,
        lamp(own_servers, "jfk", qos=0) as fleeting,
        lamp(own_servers, "lga") as at_lga,
    ):
        view = await coordinator.send("off")
        message = await anext(at_lga.messages)

        assert [(each.site, each.state) for each in view.sites] == BOTH
        assert [each.subscriptions for each in view.sites] == [1, 1]
        assert str(message.topic) == f"broadcast/lamps/{view.broadcast}"
        assert await heard(at_jfk, 1) == await heard(fleeting, 1) == [message.payload] == [b"off"]


async def test_broadcast_when_a_site_is_cut_off_then_the_others_get_it_and_the_site_later_in_order(
    own_servers: Mesh,
) -> None:
    async with agent(own_servers, "jfk"), coordinating(own_servers) as coordinator:
        async with agent(own_servers, "lga"), lamp(own_servers, "lga"):
            pass
        await own_servers.kill("lga-nats")
        async with lamp(own_servers, "jfk") as at_jfk:
            first, second = await coordinator.send("1"), await coordinator.send("2")
            assert await heard(at_jfk, 2) == [b"1", b"2"]
        assert [each.state for each in first.sites] == [BroadcastState.DELIVERED, BroadcastState.WAITING]

        await own_servers.start("lga-nats")
        await linked(own_servers)
        async with agent(own_servers, "lga"), lamp(own_servers, "lga") as at_lga:
            assert await heard(at_lga, 2) == [b"1", b"2"]
            await eventually(lambda: _is_through(coordinator, second.broadcast))

        assert settled(coordinator.told) == sorted([*BOTH, *BOTH])


async def _is_through(coordinator: Coordinator, broadcast: str) -> bool:
    return await coordinator.states(broadcast) == BOTH


async def test_broadcast_when_coordinator_and_agent_are_killed_before_it_is_noted_then_comes_once(
    own_servers: Mesh,
) -> None:
    async with agent(own_servers, "lga"):  # Its IN, and so its sessions.
        pass
    async with lamp(own_servers, "lga") as at_lga:
        async with coordinating(own_servers) as coordinator:
            accepted = await coordinator.send("off", sites=["lga"])
        async with agent(own_servers, "lga") as streams:
            first = await _deliver_unnoted(streams, accepted)

        async with agent(own_servers, "lga"), coordinating(own_servers) as again:
            await eventually(lambda: _delivered(again, accepted.broadcast))
            repeated = await again.send("off", sites=["lga"], id=accepted.broadcast)
            assert await heard(at_lga, 1) == [b"off"]

    assert repeated.sites[0].state is BroadcastState.DELIVERED
    assert repeated.sites[0].at is not None
    assert abs((repeated.sites[0].at - first).total_seconds()) < 1


async def _deliver_unnoted(streams: SiteStreams, view: BroadcastView) -> datetime:
    """Let a site store a broadcast, and no one hear of it."""
    command = DeliverBroadcast(
        site="lga", broadcast=view.broadcast, topic=view.topic, payload="off", left_s=3600
    )
    at = (await Broadcasts(streams).deliver(command)).at
    assert at is not None
    return at


async def _delivered(coordinator: Coordinator, broadcast: str) -> bool:
    return await coordinator.states(broadcast) == [("lga", BroadcastState.DELIVERED)]


async def test_broadcast_when_it_expires_before_the_site_is_back_then_is_told_and_not_delivered(
    own_servers: Mesh,
) -> None:
    async with coordinating(own_servers) as coordinator:
        late = await coordinator.send("late", sites=["lga"], expires_s=1)
        await eventually(lambda: _expired(coordinator, late.broadcast))
        async with agent(own_servers, "lga"), lamp(own_servers, "lga") as at_lga:
            await coordinator.send("timely", sites=["lga"])
            assert await heard(at_lga, 1) == [b"timely"]

    expired, delivered = ("lga", BroadcastState.EXPIRED), ("lga", BroadcastState.DELIVERED)
    assert settled(coordinator.told) == [delivered, expired]


async def _expired(coordinator: Coordinator, broadcast: str) -> bool:
    return await coordinator.states(broadcast) == [("lga", BroadcastState.EXPIRED)]


async def test_broadcast_when_a_device_is_away_until_it_has_expired_then_gets_only_what_has_not(
    own_servers: Mesh,
) -> None:
    async with agent(own_servers, "jfk"), coordinating(own_servers) as coordinator:
        async with lamp(own_servers, "jfk"):
            pass
        short = await coordinator.send("short", sites=["jfk"], expires_s=2)
        await coordinator.send("long", sites=["jfk"])
        while now() < short.expires_at:
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.5)  # The server forgets within a second.

        async with lamp(own_servers, "jfk") as device:
            assert await heard(device, 1) == [b"long"]


async def test_broadcast_that_the_store_of_sessions_lost_when_given_again_then_has_its_topic_and_time(
    own_servers: Mesh,
) -> None:
    async with agent(own_servers, "jfk") as streams, coordinating(own_servers) as coordinator:
        async with lamp(own_servers, "jfk") as device:
            await coordinator.send("on", sites=["jfk"])
            assert await heard(device, 1) == [b"on"]
        await Redelivery(streams).renew()
        usual = (await streams.jetstream.stream_info(BROADCAST_STREAM)).config.republish
        await streams.change(BROADCAST_STREAM, republish=RePublish(src=BROADCAST_SUBJECTS, dest="nowhere.>"))
        view = await coordinator.send("off", sites=["jfk"], expires_s=60)
        await streams.change(BROADCAST_STREAM, republish=usual)

        assert await Redelivery(streams).complete() == 1

        stored = await streams.jetstream.get_last_msg(MQTT_STREAM, "$MQTT.msgs.broadcast.>")
        assert stored.subject == f"$MQTT.msgs.broadcast.lamps.{view.broadcast}"
        assert 0 < int((stored.headers or {})[TIME_TO_LIVE_HEADER]) <= 60
        async with lamp(own_servers, "jfk") as device:
            assert await heard(device, 1) == [b"off"]


async def test_device_when_it_publishes_on_a_broadcast_topic_then_no_one_hears_it(own_servers: Mesh) -> None:
    async with (
        agent(own_servers, "jfk"),
        lamp(own_servers, "jfk") as device,
        own_servers.device("jfk") as other,
    ):
        await other.publish("broadcast/lamps/x", b"forged", qos=0)

        assert await heard(device, 0) == []
