"""A link that is told its delay and bandwidth is measured at them, over real servers and Redis."""

from __future__ import annotations

import asyncio
import os
import time
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from statistics import median
from typing import Any

import pytest
from redis.asyncio import Redis

from running.links import mesh_with_links
from running.mesh import Mesh
from towpath.bus import Bus
from towpath.contracts.links import LinkConditions, LinkList, ListLinks, RestoreLink, ShapeLink
from towpath.contracts.metrics import Echo
from towpath.mesh.link_probe import echo, probe
from towpath.mesh.servers import redis_server
from towpath.mesh.state import Credential
from towpath.processes import stop
from towpath.tasks import end

SITE = "jfk"
DELAY_S = 0.05
RATE = 1_250_000
"""Bytes per second: 10 Mbit/s."""

CONDITIONS = LinkConditions(delay_ms=DELAY_S * 1000, bandwidth_bytes_per_s=RATE)
DEADLINE_S = 30.0
BULK_BYTES = 2_000_000
KEY = f"towpath:transfer:{SITE}-accuracy"


def measured_at(value: float) -> Any:
    """Within a tenth of it."""
    return pytest.approx(value, rel=0.1)


@pytest.fixture(scope="module")
def mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    with mesh_with_links(tmp_path_factory.mktemp("mesh")) as running:
        redis = redis_server(running.state, running.home)
        running.specs[redis.name] = redis
        try:
            asyncio.run(running.start(redis.name))
            yield running
        finally:
            stop(running.home.run, redis.name, grace_s=3)


class Ways:
    """The ways of a site's parts over its link, of which the hub's end answers."""

    def __init__(self, operator: Bus, agent: Bus, redis: Redis) -> None:
        self.operator = operator
        self.agent = agent
        self.redis = redis

    async def shape(self, conditions: LinkConditions) -> None:
        await self.operator.request(ShapeLink(site=SITE, conditions=conditions), deadline_s=DEADLINE_S)

    async def passed_to_hub(self) -> int:
        """Bytes, of all that goes over the link."""
        links: LinkList = await self.operator.request(ListLinks(), deadline_s=DEADLINE_S)
        return next(link.bytes_to_hub for link in links.links if link.site == SITE)


@asynccontextmanager
async def ways(mesh: Mesh) -> AsyncIterator[Ways]:
    """The link is as told from here on, and perfect in the end."""
    state, access = mesh.state, mesh.state.sites[SITE]
    host, port = state.redis_remote(access)
    async with AsyncExitStack() as stack:

        async def connected(url: str, user: Credential) -> Bus:
            connecting = Bus.connect(url, user.user, user.password, name="test", within_s=DEADLINE_S)
            return await stack.enter_async_context(await connecting)

        collector = await connected(state.hub_url, state.collector)
        await collector.serve(Echo, echo, site="hub")
        operator = await connected(state.hub_url, state.operator)
        agent = await connected(access.nats_url, access.agent)
        redis = Redis(host=host, port=port, username=access.redis.user, password=access.redis.password)
        stack.push_async_callback(redis.aclose)
        ways = Ways(operator, agent, redis)
        await eventually(lambda: probe(agent, "hub"))
        await ways.shape(CONDITIONS)
        try:
            yield ways
        finally:
            await operator.request(RestoreLink(site=SITE), deadline_s=DEADLINE_S)


async def passing(over: Ways, at_least: int) -> tuple[float, int]:
    """When as many bytes have passed to the hub, and how many they were then."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            passed = await over.passed_to_hub()
            if passed >= at_least:
                return time.monotonic(), passed
            await asyncio.sleep(0.02)


async def eventually(answers: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not await answers():
            await asyncio.sleep(0.05)


async def test_round_trip_and_bandwidth_are_measured_as_told_when_the_mesh_probes_the_link(
    mesh: Mesh,
) -> None:
    async with ways(mesh) as over:
        await probe(over.agent, "hub")
        probes = [{each.metric: each.value for each in await probe(over.agent, "hub")} for _ in range(5)]
    # What a busy machine adds to a trip is not the link's.
    assert min(each["link.round_trip"] for each in probes) == measured_at(2 * DELAY_S)
    assert median(each["link.bandwidth"] for each in probes) == measured_at(RATE)


async def test_bulk_takes_the_time_of_its_bytes_and_a_round_trip_when_nothing_else_passes(mesh: Mesh) -> None:
    async with ways(mesh) as over:
        await over.redis.xlen(KEY)
        took_s: list[float] = []
        for _ in range(3):
            began = time.monotonic()
            await over.redis.xadd(KEY, {"data": os.urandom(BULK_BYTES)})
            took_s.append(time.monotonic() - began)
        # What a busy machine adds is not the link's; no time is too short.
        assert min(took_s) == measured_at(BULK_BYTES / RATE + 2 * DELAY_S)
        await over.redis.delete(KEY)


async def test_all_together_have_the_bandwidth_when_redis_and_messages_pass_at_the_same_time(
    mesh: Mesh,
) -> None:
    async with ways(mesh) as over:
        sent = {"redis": 0, "messages": 0}

        async def fill_redis() -> None:
            while True:
                await over.redis.xadd(KEY, {"data": os.urandom(200_000)}, maxlen=1)
                sent["redis"] += 1

        async def fill_bus() -> None:
            while True:
                # Nothing that servers could make smaller on the way.
                payload = b64encode(os.urandom(45_000)).decode()
                await over.agent.request(Echo(site="hub", payload=payload), deadline_s=DEADLINE_S)
                sent["messages"] += 1

        filling = [
            asyncio.create_task(fill()) for fill in (fill_redis, fill_redis, fill_redis, fill_bus, fill_bus)
        ]
        try:
            _, first = await passing(over, 0)
            began, before = await passing(over, first + 500_000)
            sent_before = dict(sent)
            ended, after = await passing(over, before + 5_000_000)
        finally:
            await end(filling)
        assert (after - before) / (ended - began) == measured_at(RATE)
        assert all(sent[kind] > sent_before[kind] for kind in sent), "both had their share"
        await over.redis.delete(KEY)
