"""Servers refuse users any subject that is not their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiomqtt
import nats
import nats.errors
import nats.js.errors
import pytest
import redis
import redis.exceptions
from nats.aio.client import Client
from nats.aio.msg import Msg

from running.mesh import REFUSED_S, Mesh, last_is, publish_qos1
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.contracts.credential import Credential

DENIED = [
    ("agent", "towpath.v1.heartbeat.lga"),
    ("agent", "towpath.v1.command.coordinator.deploy"),
    ("agent", "towpath.v1.command.jfk.stop-job"),
    ("agent", "towpath.v1.command.jfk.adjust-job"),
    ("agent", "$JS.lga.API.STREAM.DELETE.OUT_x"),
    ("agent", "site.forged"),
    ("engine", "$MQTT.msgs.site.forged"),
    ("engine", "towpath.mqtt.forged"),
    ("engine", "towpath.v1.heartbeat.jfk"),
    ("engine", "towpath.v1.event.job.x.changed"),
    ("engine", "towpath.v1.engine.jfk._shared.halt-query"),
    ("operator", "towpath.v1.command.jfk.stop-job"),
    ("operator", "towpath.v1.command.jfk.set-rules"),
    ("operator", "towpath.v1.command.jfk.adjust-job"),
    ("jfk.operator", "towpath.v1.command.lga.adjust-job"),
    ("jfk.operator", "towpath.v1.command.jfk.start-job"),
    ("jfk.operator", "towpath.v1.command.coordinator.update"),
    ("jfk.operator", "$JS.API.STREAM.DELETE.IN"),
    ("agent", "towpath.v1.metric.lga.engine.batch_s"),
    ("engine", "towpath.v1.metric.jfk.engine.batch_s"),
    ("injector", "towpath.v1.command.jfk.stop-job"),
    ("injector", "towpath.v1.command.coordinator.remove-job"),
    ("injector", "towpath.v1.event.job.x.changed"),
    ("injector", "towpath.v1.metric.jfk.engine.batch_s"),
    ("operator", "towpath.v1.event.job.x.changed"),
    ("operator", "$JS.jfk.API.STREAM.DELETE.OUT_x"),
    ("operator", "$JS.API.STREAM.DELETE.EVENTS"),
    ("coordinator", "$JS.jfk.API.STREAM.DELETE.OUT_x"),
    ("coordinator", "sink.jfk.hub.x.1"),
    ("engine", "sink.jfk.lga.x.1"),
    ("engine", "sink.jfk.hub.x.1"),
    ("engine", "sink.lga.lga.x.1"),
    ("engine", "reject.lga.lga.x.1"),
    ("engine", "shadow.sink.lga.lga.x.1"),
    ("agent", "sink.jfk.lga.x.1"),
    ("agent", "sink.lga.jfk.x.1"),
    ("monitor", "sink.jfk.jfk.x.1"),
    ("monitor", "shadow.sink.jfk.hub.x.1"),
]


@pytest.mark.parametrize(("user", "subject"), DENIED, ids=[f"{user}-{subject}" for user, subject in DENIED])
async def test_user_is_refused_when_it_publishes_beyond_its_subjects(
    mesh: Mesh, user: str, subject: str
) -> None:
    refusal = await _refusal(mesh, user, lambda client: client.publish(subject, b"{}"))
    assert refusal.casefold().endswith(f'permissions violation for publish to "{subject}"'.casefold())


@pytest.mark.parametrize("user", ["agent", "engine", "operator", "coordinator", "injector"])
async def test_user_is_refused_when_it_listens_to_other_inboxes(mesh: Mesh, user: str) -> None:
    refusal = await _refusal(mesh, user, lambda client: client.subscribe("_INBOX.>"))
    assert refusal.casefold().endswith('permissions violation for subscription to "_inbox.>"')


async def _refusal(mesh: Mesh, user: str, act: Callable[[Client], Awaitable[object]]) -> str:
    """Return the server's refusal when a user does `act`."""
    told: asyncio.Queue[str] = asyncio.Queue()

    async def on_error(error: Exception) -> None:
        told.put_nowait(str(error))

    at_hub = user in ("operator", "coordinator", "injector", "monitor")
    there = mesh.state if at_hub else mesh.state.sites["jfk"]
    operators = {"operator": mesh.state.operator, "jfk.operator": mesh.state.sites["jfk"].operator}
    credential = operators.get(user) or there.login(user)
    url = mesh.state.hub_url if at_hub else mesh.state.sites["jfk"].nats_url
    async with mesh.client(url, credential, error_cb=on_error) as client:
        await act(client)
        return await asyncio.wait_for(told.get(), WITHIN_S)


async def test_adjustment_when_it_comes_over_the_link_then_does_not_reach_the_agent(mesh: Mesh) -> None:
    site, subject = mesh.state.sites["jfk"], "towpath.v1.command.jfk.adjust-job"
    assert site.operator is not None
    heard: list[bytes] = []

    async def hear(message: Msg) -> None:
        heard.append(message.data)

    async with mesh.agent("jfk") as agent, mesh.coordinator() as coordinator:
        await agent.subscribe("towpath.v1.command.jfk.*", cb=hear)

        async def hears_the_coordinator() -> bool:
            await coordinator.publish(subject, b"forged")
            await coordinator.publish("towpath.v1.command.jfk.start-job", b"told")
            return b"told" in heard

        await eventually(hears_the_coordinator)
        async with mesh.client(site.nats_url, site.operator) as person:
            await person.publish(subject, b"asked for")
            await eventually(lambda: b"asked for" in heard)
    assert b"forged" not in heard


@pytest.mark.parametrize("user", ["device", "leaf"])
async def test_nats_client_is_refused_when_the_user_is_for_something_else(mesh: Mesh, user: str) -> None:
    credential = getattr(mesh.state.sites["jfk"], user)
    url = mesh.state.hub_url if user == "leaf" else mesh.state.sites["jfk"].nats_url
    with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
        await nats.connect(
            url, user=credential.user, password=credential.password, allow_reconnect=False, error_cb=_ignore
        )


@pytest.mark.parametrize("password", ["", "wrong"])
async def test_connection_is_refused_when_the_password_is_wrong(mesh: Mesh, password: str) -> None:
    site = mesh.state.sites["jfk"]
    for url, user in (
        (mesh.state.hub_url, mesh.state.operator.user),
        (site.nats_url, site.login("agent").user),
    ):
        with pytest.raises(nats.errors.Error, match=r"(?i)authorization"):
            await nats.connect(url, user=user, password=password, allow_reconnect=False, error_cb=_ignore)
    with pytest.raises(aiomqtt.MqttError):
        async with aiomqtt.Client(
            site.mqtt_host, site.mqtt_port, username=site.device.user, password=password
        ):
            pass


async def _ignore(error: Exception) -> None:
    """Drop the error: the refusal also reaches the test as an exception."""


@pytest.mark.parametrize("topic", ["elsewhere/x", "towpath/command/remove", "sink/jfk/job/1"])
async def test_device_is_refused_when_it_publishes_outside_site(mesh: Mesh, topic: str) -> None:
    async with mesh.agent("jfk") as agent:
        await agent.jetstream().add_stream(name="TRAP", subjects=[topic.replace("/", ".")])
        try:
            await publish_qos1(mesh, topic)
            await asyncio.sleep(REFUSED_S)
            assert await last_is(agent, "TRAP", 0)
        finally:
            await agent.jetstream().delete_stream("TRAP")


async def test_device_is_refused_when_it_publishes_into_other_sessions(mesh: Mesh) -> None:
    async with mesh.agent("jfk") as agent, mesh.device("jfk") as device:
        await device.subscribe("stats/hourly", qos=1)
        before = (await agent.jetstream().stream_info("$MQTT_msgs")).state.last_seq
        await publish_qos1(mesh, "$MQTT/msgs/stats/hourly")
        await asyncio.sleep(REFUSED_S)
        assert await last_is(agent, "$MQTT_msgs", before)


@promise("restricted")
@pytest.mark.parametrize("topic", ["site/#", "towpath/#", "sink/#"])
async def test_device_is_refused_when_it_subscribes_to_what_is_not_a_result(mesh: Mesh, topic: str) -> None:
    async with mesh.device("jfk") as device:
        [code] = await device.subscribe(topic, qos=1)
        assert getattr(code, "is_failure", False)


def _redis(mesh: Mesh, credential: Credential) -> redis.Redis:
    return redis.Redis(
        host=mesh.state.redis_host,
        port=mesh.state.redis_port,
        username=credential.user,
        password=credential.password,
        socket_timeout=WITHIN_S,
    )


def test_redis_takes_state_in_transfer_when_a_site_sends_it(mesh: Mesh) -> None:
    client = _redis(mesh, mesh.state.sites["jfk"].redis)
    client.xadd("towpath:transfer:m1:chunks", {"data": b"x"})
    client.expire("towpath:transfer:m1:chunks", 60)
    assert client.xread({"towpath:transfer:m1:chunks": "0"}, count=1)
    assert client.delete("towpath:transfer:m1:chunks") == 1


@pytest.mark.parametrize(
    "command",
    [("GET", "towpath:jobs"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "GET", "*"), ("ACL", "LIST")],
)
def test_redis_refuses_site_when_it_reaches_for_more(mesh: Mesh, command: tuple[str, ...]) -> None:
    with pytest.raises(redis.exceptions.NoPermissionError):
        _redis(mesh, mesh.state.sites["jfk"].redis).execute_command(*command)


def test_redis_refuses_when_no_one_logs_in(mesh: Mesh) -> None:
    client = redis.Redis(host=mesh.state.redis_host, port=mesh.state.redis_port, socket_timeout=WITHIN_S)
    with pytest.raises(redis.exceptions.AuthenticationError):
        client.get("towpath:jobs")


async def test_redis_keeps_what_it_acknowledged_when_it_is_killed(own_servers: Mesh) -> None:
    coordinator = _redis(own_servers, own_servers.state.redis_coordinator)
    coordinator.set("towpath:jobs", "precious")
    await own_servers.kill("redis")
    await own_servers.start("redis")
    assert coordinator.get("towpath:jobs") == b"precious"
