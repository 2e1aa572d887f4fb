"""The disk of a site fills, on a real server: devices are refused in time, and nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import aiomqtt
import pytest

from running.mesh import Mesh
from running.promises import promise
from running.waiting import WITHIN_S, eventually
from towpath.agent.jobs import Jobs
from towpath.agent.storage import Storage
from towpath.contracts.data_plane import IN_STREAM, MQTT_STREAM
from towpath.contracts.events import StorageChanged
from towpath.contracts.message import Event
from towpath.contracts.site import Retention
from towpath.streams.pages import last_serial
from towpath.streams.streams import SiteStreams

REFUSED_S = 3.0
"""Time without an acknowledgement after which an event counts as refused."""


@dataclass
class Site:
    """Storage of jfk on a disk of 100 bytes."""

    mesh: Mesh
    streams: SiteStreams
    free: int = 90
    told: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        jobs = cast("Jobs", SimpleNamespace(streams=self.streams, assignments={}))
        self.storage = Storage(jobs, Path(), self.tell, lambda _: (100, 100 - self.free, self.free))

    async def tell(self, event: Event) -> None:
        self.told.append(event)

    async def fill(self, free: int) -> str | None:
        """Let so much of the disk be free. Return what the site says of it."""
        self.free = free
        await eventually(self._has_looked)
        return self.storage.trouble()

    async def _has_looked(self) -> bool:
        """Look at the storage. Return false if the server did not answer in time."""
        with contextlib.suppress(TimeoutError):
            await self.storage.look()
            return True
        return False

    async def is_taken(self, within_s: float = WITHIN_S) -> bool:
        """Publish an event. Return true if the site acknowledges it."""
        device: Any = self.mesh.device("jfk", identifier="thermometer", timeout=WITHIN_S)
        try:
            async with device:
                await device.publish("site/hall", b"{}", qos=1, timeout=within_s)
        except aiomqtt.MqttError:
            return False
        return True

    async def limits(self) -> dict[str, int | None]:
        names = (IN_STREAM, MQTT_STREAM)
        return {name: (await self.streams.jetstream.stream_info(name)).config.max_bytes for name in names}


@pytest.fixture
async def site(own_servers: Mesh) -> AsyncIterator[Site]:
    async with own_servers.agent("jfk") as agent:
        streams = SiteStreams(agent, "jfk", Retention(max_bytes=1_000_000, total_bytes=600_000))
        await streams.ensure_in()
        yield Site(own_servers, streams)


@promise("full disk")
async def test_devices_when_the_disk_fills_then_are_refused_until_there_is_room_again(site: Site) -> None:
    assert await site.fill(30) is None
    assert await site.is_taken()
    assert await site.fill(15) == "the disk is 85% full"
    assert await site.is_taken()
    assert await site.fill(4) == "the disk is 96% full, events of devices are refused"
    assert not await site.is_taken(REFUSED_S)
    assert await site.fill(6) is not None, "it must be a little emptier"
    assert not await site.is_taken(REFUSED_S)
    assert await site.fill(10) == "the disk is 90% full"
    assert await site.is_taken()
    assert await site.fill(50) is None
    assert await last_serial(site.streams.connection, "jfk", IN_STREAM) == 3
    states = [event.state for event in site.told if isinstance(event, StorageChanged)]
    assert states == ["filling", "full", "filling", "ok"]


async def test_streams_when_their_budget_is_small_then_share_it_also_after_they_are_made_again(
    site: Site,
) -> None:
    assert await site.limits() == {IN_STREAM: 1_000_000, MQTT_STREAM: 1_000_000}
    await site.fill(50)
    shared = {IN_STREAM: 480_000, MQTT_STREAM: 120_000}
    assert await site.limits() == shared
    await site.streams.ensure_in()
    assert await site.limits() == shared
    async with asyncio.timeout(WITHIN_S):
        while await last_serial(site.streams.connection, "jfk", IN_STREAM) < 300:
            async with site.mesh.device("jfk") as device:
                for _ in range(100):
                    await device.publish("site/hall", bytes(4_000), qos=1)
    kept = await site.streams.view("jfk", IN_STREAM)
    assert kept.size <= 480_000
    assert kept.first > 1, "the oldest are dropped"
