"""Uplinks of a running mesh in a test: a sender that can be killed, and the receiver's account."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import aiomqtt
from nats.aio.client import Client
from nats.errors import Error as NatsError

from running.mesh import Mesh
from towpath.bus.connecting import Login
from towpath.contracts.data_plane import (
    IN_STREAM,
    MESSAGE_ID_HEADER,
    device_subject,
    sink_subject,
    uplink_stream,
)
from towpath.contracts.job import ResolvedOutput
from towpath.contracts.site import Retention
from towpath.contracts.uplink import ResolvedUplink, UplinkSpec
from towpath.mesh.state import MeshState
from towpath.streams.pages import StoredMessage, read_after
from towpath.streams.streams import SiteStreams
from towpath.tasks import end
from towpath.uplinks.account import Account, Proof
from towpath.uplinks.allowance import Allowance, Spending
from towpath.uplinks.forwarder import UplinkForwarder
from towpath.uplinks.link import UplinkLink
from towpath.uplinks.position import EventPlace
from towpath.uplinks.receiving import ensure_arrivals

OUTPUT = ResolvedOutput(
    site="jfk", stream="OUT_wheels", topic="wheels/axles", rejected_topic="wheels/axles/rejected"
)
SINK = sink_subject("jfk", "jfk", "wheels", 1)


def uplink_of(name: str = "axles", **fields: Any) -> ResolvedUplink:
    """Return an uplink from jfk to lga, of a job's output, or of the device topic that is given."""
    wanted = {"name": name, "site": "jfk", "topic": OUTPUT.topic, "to": "lga", **fields}
    spec = UplinkSpec.model_validate(wanted)
    if spec.from_device:
        return ResolvedUplink(spec=spec, stream=IN_STREAM, subject=device_subject(spec.topic))
    return ResolvedUplink(spec=spec, stream=OUTPUT.stream)


async def prepare(mesh: Mesh, uplinks: Iterable[ResolvedUplink], *, kept_bytes: int = 4 * 1024**3) -> None:
    """Make the streams of origin and destination."""
    async with mesh.agent("jfk") as origin, mesh.agent("lga") as destination:
        at_origin = SiteStreams(origin, "jfk", Retention(max_bytes=kept_bytes))
        await at_origin.ensure_in()
        await at_origin.outputs.accept("wheels", {1: "jfk"}, OUTPUT)
        streams = SiteStreams(destination, "lga", Retention())
        await streams.ensure_in()
        for uplink in uplinks:
            await ensure_arrivals(streams, uplink)


@asynccontextmanager
async def forwarding(
    mesh: Mesh, uplinks: Iterable[ResolvedUplink], directory: Path
) -> AsyncIterator[UplinkLink]:
    """Run the sender within the block. It ends as if it were killed: what was under way stays so.

    The gate of the destination opens as soon as its server runs.
    """
    forwarders = [
        UplinkForwarder(each, Allowance(each.spec, Spending(directory / f"{each.spec.name}.json")))
        for each in uplinks
    ]
    access = mesh.state.sites["jfk"]
    login = access.login("agent")
    link = UplinkLink(Login(access.nats_url, login.user, login.password), forwarders, "uplink-test")
    tasks = [asyncio.create_task(work) for work in (link.run(), _opened(mesh.gate("lga")))]
    try:
        yield link
    finally:
        await end(tasks)


async def _opened(gate: AbstractAsyncContextManager[None]) -> None:
    async with gate:
        await asyncio.Event().wait()


async def publish(mesh: Mesh, numbers: Iterable[int]) -> None:
    """Let the job at jfk publish these numbers. Returns when they are stored."""
    async with mesh.agent("jfk") as client:
        await publish_over(client, numbers)


async def publish_over(client: Client, numbers: Iterable[int]) -> None:
    """Do the same over a connection."""
    jetstream = client.jetstream(timeout=30)
    waiting: list[asyncio.Future[Any]] = []
    for number in numbers:
        waiting.append(await jetstream.publish_async(SINK, json.dumps({"n": number}).encode()))
        if len(waiting) >= 1000:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)


@asynccontextmanager
async def publishing(mesh: Mesh, first: int) -> AsyncIterator[list[int]]:
    """Let the job publish on, some events at a time, whatever is killed. The list has the next number.

    What is not acknowledged is published again under its message id.
    """
    following = [first]
    async with mesh.agent("jfk") as client:
        task = asyncio.create_task(_publish_on(client, following))
        try:
            yield following
        finally:
            await end([task])
            await _until_stored(client, following)
            following[0] += 20


async def _publish_on(client: Client, following: list[int]) -> None:
    while True:
        await _until_stored(client, following)
        following[0] += 20
        await asyncio.sleep(0.02)


async def _until_stored(client: Client, following: list[int]) -> None:
    for number in range(following[0], following[0] + 20):
        while True:
            try:
                body, headers = json.dumps({"n": number}).encode(), {MESSAGE_ID_HEADER: str(number)}
                await client.jetstream(timeout=1).publish(SINK, body, headers=headers)
                break
            except (NatsError, OSError, TimeoutError):
                await asyncio.sleep(0.05)


async def publish_as_device(mesh: Mesh, numbers: Iterable[int], topic: str) -> None:
    """Let a device of jfk publish these numbers to a device topic. Returns when they are stored."""
    await publish_to(mesh.state, topic, numbers)


async def publish_to(state: MeshState, topic: str, numbers: Iterable[int]) -> None:
    """Do the same in a mesh of any kind."""
    site = state.site("jfk")
    login = {"username": site.device.user, "password": site.device.password}
    async with aiomqtt.Client(site.mqtt_host, site.mqtt_port, **login) as device:
        for some in batched(numbers, 10):
            await asyncio.gather(*(device.publish(topic, json.dumps({"n": n}), qos=1) for n in some))


def batched(numbers: Iterable[int], size: int) -> Iterator[tuple[int, ...]]:
    """Yield numbers in groups."""
    left = iter(numbers)
    while some := tuple(islice(left, size)):
        yield some


async def arrived(mesh: Mesh, name: str = "axles") -> list[StoredMessage]:
    """Return what the destination has, notices included."""
    async with mesh.agent("lga") as client:
        return await read_after(client, "lga", uplink_stream(name), 0)


def numbers_of(messages: Iterable[StoredMessage]) -> list[int]:
    """Return the numbers in the events, in the order in which they arrived."""
    return [json.loads(m.body)["n"] for m in messages if EventPlace.of(m.headers) is not None]


def proof_of(messages: Iterable[StoredMessage]) -> Proof:
    """Return the receiver's account of what has arrived."""
    account = Account()
    for message in messages:
        account.take(message.headers)
    return account.proof()
