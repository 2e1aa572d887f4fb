"""A device that subscribes to everything at its site costs no other site anything, on real servers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from running.mesh import Mesh, answers_request
from running.promises import promise
from running.raw_leaf import raw_leaf
from running.waiting import WITHIN_S, eventually
from towpath.bus.connecting import flushed
from towpath.contracts.data_plane import sink_subject
from towpath.mesh.names import SERVER_TOTALS

LATER = "towpath.v1.command.jfk.echo"
"""The agent at jfk answers here. The hub tells of it on the same links as of the device, and after it."""

COUNT, SIZE = 100, 10_000


@asynccontextmanager
async def subscribed(mesh: Mesh, topics: str) -> AsyncIterator[None]:
    """Let a device at jfk subscribe, and then the agent there."""

    async def answer(message: Msg) -> None:
        await message.respond(b"here")

    async with mesh.device("jfk") as device, mesh.agent("jfk") as agent:
        await device.subscribe(topics)
        await agent.subscribe(LATER, cb=answer)
        await flushed(agent)
        yield


async def sent(server: Client) -> int:
    """Return the bytes that a site's server has sent to all its clients and to the hub."""
    return json.loads((await server.request(SERVER_TOTALS, b"{}", timeout=WITHIN_S)).data)["data"][
        "out_bytes"
    ]


@promise("restricted")
@pytest.mark.parametrize("topics", ["#", "+/+/#", "+/+/+/+/#"])
async def test_site_when_a_device_elsewhere_subscribes_to_everything_then_sends_nothing_over_its_link(
    mesh: Mesh, topics: str
) -> None:
    async with subscribed(mesh, topics), mesh.agent("lga") as agent, mesh.engine("lga") as engine:
        await eventually(lambda: answers_request(agent, LATER))
        before = await sent(agent)
        for _ in range(COUNT):
            await engine.publish(sink_subject("lga", "lga", "nowhere", 1), bytes(SIZE))
        await flushed(engine)
        assert await answers_request(agent, LATER)
        assert await sent(agent) - before < COUNT * SIZE / 10


@pytest.mark.parametrize("topics", ["#", "+/#"])
async def test_hub_when_a_device_subscribes_to_everything_then_tells_no_other_site(
    mesh: Mesh, topics: str
) -> None:
    async with raw_leaf(mesh.state, "lga") as leaf, subscribed(mesh, topics):

        async def knows_the_later_one() -> bool:
            await leaf.settled()
            return LATER in leaf.told

        await eventually(knows_the_later_one)
        assert not leaf.told & {">", "*.>"}
