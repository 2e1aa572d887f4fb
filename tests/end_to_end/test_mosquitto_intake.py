"""From a Mosquitto into the IN stream: what devices send is stored once, in order, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from running_mosquitto import Site, bridge_process, running_site
from towpath.contracts.site import BrokerKind, BrokerSpec


@pytest.fixture(params=["5", "3.1.1"])
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    broker = BrokerSpec(kind=BrokerKind.MOSQUITTO, version=request.param)
    async with running_site(tmp_path / "mesh", broker) as running:
        yield running


async def test_events_when_published_to_mosquitto_then_are_in_the_stream_as_they_were(site: Site) -> None:
    payloads = [b"", b"\x00\xff\xfe", "grün".encode(), b"{}"]
    async with site.bridged():
        await site.works()
        async with site.device() as device:
            for payload in payloads:
                await device.publish("site/gate/a", payload, qos=1)
            await device.publish("site/b", b"of qos 0", qos=0)
        await site.holds(5)
    stored = await site.stored()
    assert [m.body for m in stored if m.subject == "site.gate.a"] == payloads
    assert [m.body for m in stored if m.subject == "site.b"] == [b"of qos 0"]


async def test_equal_payloads_when_published_in_a_row_then_are_all_kept(site: Site) -> None:
    async with site.bridged():
        await site.works()
        async with site.device() as device:
            for _ in range(300):
                await device.publish("site/constant", b"1", qos=1)
        await site.holds(300)
    assert await site.count() == 300
