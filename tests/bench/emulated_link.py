"""Delay and bandwidth of an emulated link, compared with its settings.

The figures include the time that servers and processes add to a trip. On an idle machine it is short.
"""

from __future__ import annotations

import asyncio
import os
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from statistics import median

from benchmark import Benchmark, Say, Scale
from figures import Case, Measured, Target, Value, rounded
from measured_mesh import MeasuredMesh, mesh_of, temporary_home
from redis.asyncio import Redis

from towpath.bus import Bus
from towpath.contracts.links import LinkConditions, LinkList, ListLinks, RestoreLink, ShapeLink
from towpath.contracts.metrics import Echo
from towpath.contracts.site import SiteSpec
from towpath.mesh.link_probe import probe
from towpath.tasks import end

SITE = "jfk"
DELAY_S = 0.05
RATE = 1_250_000
"""Bytes per second: 10 Mbit/s."""

CONDITIONS = LinkConditions(delay_ms=DELAY_S * 1000, bandwidth_bytes_per_s=RATE)
BULK_BYTES = 2_000_000
KEY = f"towpath:transfer:{SITE}-accuracy"
COMMAND_S = 60.0
LOOK_S = 0.02

TOLD, FOUND, OFF = "told", "measured", "off, %"
TARGET = Target(at_most=10.0)


@dataclass
class Ways:
    """The connections of a site's parts over its link."""

    operator: Bus
    agent: Bus
    redis: Redis

    async def passed_to_hub(self) -> int:
        """Return the bytes of everything that has passed the link to the hub."""
        links: LinkList = await self.operator.request(ListLinks(), deadline_s=COMMAND_S)
        return next(link.bytes_to_hub for link in links.links if link.site == SITE)

    async def passing(self, at_least: int) -> tuple[float, int]:
        """Return the time at which this many bytes have passed to the hub, and their number then."""
        while (passed := await self.passed_to_hub()) < at_least:
            await asyncio.sleep(LOOK_S)
        return time.monotonic(), passed


async def measure(mesh: MeasuredMesh | None, scale: Scale, say: Say, measured: Measured) -> None:
    """Measure a link with given delay and bandwidth: a probe, bulk alone, and all together."""
    measured.notes.append("the link is told 50 ms each way and 10 Mbit/s; times in seconds, rates in bytes/s")
    rounds = {Scale.QUICK: 3, Scale.DEFAULT: 9, Scale.FULL: 25}[scale]
    with temporary_home() as home:
        async with (
            mesh_of(home, [SiteSpec(name=SITE)], say, emulate_links=True) as linked,
            shaped(linked) as ways,
        ):
            await _probed(ways, rounds, measured)
            say("bulk")
            await _bulk(ways, rounds, measured)
            say("all together")
            await _together(ways, rounds, measured)


@asynccontextmanager
async def shaped(mesh: MeasuredMesh) -> AsyncIterator[Ways]:
    """Apply delay and bandwidth within the context, and restore the link in the end."""
    access = mesh.state.site(SITE)
    host, port = mesh.state.redis_remote(access)
    async with AsyncExitStack() as stack:
        connecting = Bus.connect(
            access.nats_url, access.login("agent").user, access.login("agent").password, name="bench"
        )
        agent = await stack.enter_async_context(await connecting)
        redis = Redis(host=host, port=port, username=access.redis.user, password=access.redis.password)
        stack.push_async_callback(redis.aclose)
        await mesh.bus.request(ShapeLink(site=SITE, conditions=CONDITIONS), deadline_s=COMMAND_S)
        try:
            yield Ways(mesh.bus, agent, redis)
        finally:
            await redis.delete(KEY)
            await mesh.bus.request(RestoreLink(site=SITE), deadline_s=COMMAND_S)


async def _probed(ways: Ways, rounds: int, measured: Measured) -> None:
    """Measure with the mesh's own probe of the link."""
    await probe(ways.agent, "hub")
    probes = [{each.metric: each.value for each in await probe(ways.agent, "hub")} for _ in range(rounds)]
    whole = [each for each in probes if each]
    _report(measured, "probe: round trip", min(each["link.round_trip"] for each in whole), 2 * DELAY_S)
    _report(measured, "probe: bandwidth", median(each["link.bandwidth"] for each in whole), RATE)


async def _bulk(ways: Ways, rounds: int, measured: Measured) -> None:
    """Measure state on its way to Redis: it needs the time of its bytes, and a round trip."""
    await ways.redis.xlen(KEY)
    took_s: list[float] = []
    for _ in range(rounds):
        begun = time.monotonic()
        await ways.redis.xadd(KEY, {"data": os.urandom(BULK_BYTES)}, maxlen=1)
        took_s.append(time.monotonic() - begun)
    _report(measured, "2 MB to Redis", min(took_s), BULK_BYTES / RATE + 2 * DELAY_S)


async def _together(ways: Ways, rounds: int, measured: Measured) -> None:
    """Measure state and messages at the same time: they share the bandwidth."""
    sent = {"redis": 0, "messages": 0}

    async def fill_redis() -> None:
        while True:
            await ways.redis.xadd(KEY, {"data": os.urandom(200_000)}, maxlen=1)
            sent["redis"] += 1

    async def fill_bus() -> None:
        while True:
            # Random bytes, which servers cannot compress on the way.
            payload = b64encode(os.urandom(45_000)).decode()
            await ways.agent.request(Echo(site="hub", payload=payload), deadline_s=COMMAND_S)
            sent["messages"] += 1

    filling = [asyncio.create_task(fill()) for fill in (*[fill_redis] * 3, *[fill_bus] * 2)]
    try:
        _, first = await ways.passing(0)
        begun, before = await ways.passing(first + 500_000)
        sent_before = dict(sent)
        ended, after = await ways.passing(before + rounds * 2_000_000)
    finally:
        await end(filling)
    starved = sum(sent[kind] == sent_before[kind] for kind in sent)
    _report(measured, "state and messages together", (after - before) / (ended - begun), RATE, starved)


def _report(measured: Measured, name: str, found: float, told: float, faults: int = 0) -> None:
    figures: dict[str, Value] = {
        TOLD: told,
        FOUND: rounded(found, 3),
        OFF: rounded(100 * abs(found - told) / told, 1),
    }
    measured.cases.append(Case(name, figures, {OFF: TARGET}, faults))


BENCHMARK = Benchmark("emulated-link", "an emulated link at the delay and bandwidth it is told", (), measure)
