"""Users of single devices at real brokers: what they may, when they are out, and what others notice of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiomqtt
import nats.errors
import pytest

from running.mosquitto import OUTPUT, SITE, Site, running_site, send, subscriber
from running.waiting import WITHIN_S, eventually
from towpath.agent import broker_refusals
from towpath.agent.broker_configuration import BrokerConfiguration, config_loaded_at
from towpath.agent.device_users import DeviceUsers
from towpath.contracts.credential import Credential
from towpath.contracts.events import SecurityRefused
from towpath.contracts.message import Event
from towpath.contracts.site import BrokerKind, BrokerSpec
from towpath.mesh.device_users import add_device, is_taken_in, revoke_device
from towpath.mesh.names import SERVER_CONNECTIONS
from towpath.mesh.servers import site_server
from towpath.processes import Supervisor
from towpath.tasks import end

CHANGES = 10


@asynccontextmanager
async def seen_to(directory: Path, kind: BrokerKind) -> AsyncIterator[Site]:
    """A site whose broker takes in devices as its agent has it do."""
    async with running_site(directory, BrokerSpec(kind=kind)) as site:
        home, state, names = site.mesh.home, site.mesh.state, list(site.mesh.specs)
        async with Supervisor([*site.mesh.specs.values()], home.run) as supervisor, site.bridged():
            await site.works()
            reload = partial(supervisor.reload, names[-1])
            if kind is BrokerKind.NATS:
                write, loaded = partial(site_server, state, SITE, home), partial(config_loaded_at, site.agent)
                configuration = BrokerConfiguration(write, reload, loaded)
            else:
                configuration = BrokerConfiguration(site.binder.create, reload)
            watching = asyncio.create_task(DeviceUsers(home, SITE, configuration).watch())
            try:
                yield site
            finally:
                await end([watching])
                await site.agent.close()  # Before its server ends.


@pytest.fixture(params=list(BrokerKind))
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with seen_to(tmp_path / "mesh", request.param) as running:
        yield running


async def added(site: Site, name: str, *publish: str, subscribe: tuple[str, ...] = ()) -> Credential:
    """Add a device, and wait until it may log in."""
    path = site.mesh.home.devices(SITE)
    login, _ = await asyncio.to_thread(add_device, path, SITE, name, publish, subscribe)
    await eventually(lambda: is_taken_in(path))
    await eventually(lambda: logs_in(site, login))
    return login


def client(site: Site, login: Credential, **options: Any) -> aiomqtt.Client:
    access = site.access
    return aiomqtt.Client(
        access.mqtt_host, access.mqtt_port, username=login.user, password=login.password, **options
    )


async def logs_in(site: Site, login: Credential) -> bool:
    try:
        async with client(site, login):
            return True
    except aiomqtt.MqttError:
        return False


async def has_left(site: Site, identifier: str) -> bool:
    """Tell if the site's server has no connection with this client id."""
    asked = json.dumps({"mqtt_client": identifier}).encode()
    try:
        answer = await site.agent.request(SERVER_CONNECTIONS, asked, timeout=WITHIN_S)
    except nats.errors.NoRespondersError:
        return False  # It reads its users.
    return not json.loads(answer.data)["data"]["connections"]


async def test_device_when_it_publishes_then_only_what_is_below_its_topic_is_stored(site: Site) -> None:
    login = await added(site, "press", "site/press")
    async with client(site, login) as device:
        await device.publish("site/press", b"1", qos=1)
        await device.publish("site/press/a/b", b"2", qos=1)
    with suppress(aiomqtt.MqttError):  # Mosquitto ends the connection.
        async with client(site, login) as device:
            await device.publish("site/other", b"forged", qos=1)
    await send(site, "site/last", [b"3"])
    await site.holds(3)
    assert [each.subject for each in await site.stored()] == ["site.press", "site.press.a.b", "site.last"]


async def test_device_when_it_subscribes_then_receives_only_what_its_filters_match(site: Site) -> None:
    login = await added(site, "screen", subscribe=("stats/+",))
    other = await added(site, "alarm", subscribe=("alarms/#",))
    came: list[bytes] = []
    async with client(site, login) as device, client(site, other) as deaf:
        await device.subscribe(OUTPUT.topic, qos=1)
        with suppress(aiomqtt.MqttError):
            await deaf.subscribe(OUTPUT.topic, qos=1)  # Mosquitto grants it, and delivers nothing.
        await site.emit("j", [b"result"])
        async with asyncio.timeout(WITHIN_S):
            came.append((await anext(aiter(device.messages))).payload)  # type: ignore[arg-type]
        assert (came, len(deaf.messages)) == ([b"result"], 0)


async def test_device_when_revoked_then_is_out_at_once_and_cannot_return(site: Site) -> None:
    login = await added(site, "press")
    stays = await added(site, "saw")
    async with client(site, stays) as untouched:
        with suppress(aiomqtt.MqttError):
            async with client(site, login) as device, asyncio.timeout(WITHIN_S):
                await asyncio.to_thread(revoke_device, site.mesh.home.devices(SITE), "press")
                await anext(aiter(device.messages))  # Ends with the connection, or with the time limit.
        assert not await logs_in(site, login)
        await untouched.publish("site/saw", b"still here", qos=1)


async def test_others_when_devices_come_and_go_then_lose_nothing_and_get_nothing_twice(site: Site) -> None:
    path, bodies = site.mesh.home.devices(SITE), [str(number).encode() for number in range(2000)]

    async def come_and_go() -> None:
        for number in range(CHANGES):
            await added(site, f"device-{number}")
            await asyncio.to_thread(revoke_device, path, f"device-{number}")
            await eventually(lambda: is_taken_in(path))

    async with subscriber(site, OUTPUT.topic, keeps_session=True):
        pass  # Its session is away when the first changes come.
    # What a server sends on a connection that is just being closed comes again after 10 s, behind newer ones.
    await eventually(lambda: has_left(site, "subscriber"))
    changing = asyncio.create_task(come_and_go())
    await site.emit("j", bodies[:1000])
    async with subscriber(site, OUTPUT.topic, keeps_session=True) as came:
        await asyncio.gather(send(site, "site/a", bodies), site.emit("j", bodies[1000:]), changing)
        await eventually(lambda: len(came) >= len(bodies))
        await site.holds(len(bodies))
    assert [body for _, body in came] == bodies
    assert [each.body for each in await site.stored()] == bodies


class _Told:
    """A bus that keeps what is published on it."""

    def __init__(self, site: Site) -> None:
        self.connection = site.agent
        self.events: list[SecurityRefused] = []

    async def publish(self, event: Event) -> None:
        assert isinstance(event, SecurityRefused)
        self.events.append(event)


async def test_refusals_when_the_sites_server_makes_them_then_are_told_with_the_user(tmp_path: Path) -> None:
    async with seen_to(tmp_path / "mesh", BrokerKind.NATS) as site:
        bus = _Told(site)
        log_file = site.mesh.home.log(f"{SITE}-nats")
        watching = asyncio.create_task(broker_refusals.watch(bus, SITE, log_file))  # type: ignore[arg-type]
        login = await added(site, "press", "site/press")
        wrong = Credential(user=login.user, password="wrong")
        async with client(site, login) as device:
            await device.publish("site/other", b"forged", qos=1)
        async with site.device(identifier="wall"):
            assert not await logs_in(site, wrong)
            async with client(site, login, identifier="wall"):
                pass
        wanted = {("publish", "site.other"), ("login", ""), ("client-id", "")}
        await eventually(lambda: {(each.kind, each.came_under) for each in bus.events} >= wanted)
        await end([watching])
    assert {each.who for each in bus.events} == {login.user}
