"""Uplinks on real servers: everything arrives once, live first or in order, and what is gone has a name."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from running.mesh import Mesh, linked
from running.uplinks import (
    arrived,
    forwarding,
    numbers_of,
    prepare,
    proof_of,
    publish,
    publish_as_device,
    publishing,
    uplink_of,
)
from running.waiting import eventually
from towpath.contracts.data_plane import STORED_AT_HEADER
from towpath.contracts.message import now
from towpath.contracts.uplink import ResolvedUplink, UplinkState
from towpath.uplinks import destination
from towpath.uplinks.position import Position

KILLS = 8

THROUGH_S = 180.0
"""For a backlog at a power-safe destination, on a busy machine."""


async def has(mesh: Mesh, uplink: ResolvedUplink, count: int) -> bool:
    return (await position(mesh, uplink)).forwarded >= count


async def position(mesh: Mesh, uplink: ResolvedUplink) -> Position:
    async with mesh.agent("lga") as client:
        return (await destination.arrived(client, uplink)).position


async def test_events_of_a_device_topic_when_the_link_is_there_then_each_arrives_once_and_is_published(
    own_servers: Mesh, tmp_path: Path
) -> None:
    uplink = uplink_of(topic="site/axles")
    await prepare(own_servers, [uplink])

    async with own_servers.device("lga") as subscriber:
        await subscriber.subscribe("from/jfk/axles", qos=1)
        async with forwarding(own_servers, [uplink], tmp_path):
            await publish_as_device(own_servers, range(100), "site/axles")
            await publish_as_device(own_servers, range(50), "site/other")
            await publish_as_device(own_servers, range(100, 500), "site/axles")
            heard = [json.loads((await anext(subscriber.messages)).payload)["n"] for _ in range(500)]

    messages = await arrived(own_servers)
    assert numbers_of(messages) == heard == list(range(500))
    assert proof_of(messages).is_complete


async def test_backlog_when_the_sender_starts_late_then_new_events_come_before_it(
    own_servers: Mesh, tmp_path: Path
) -> None:
    uplink = uplink_of()
    await prepare(own_servers, [uplink])
    await publish(own_servers, range(20_000))

    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: has(own_servers, uplink, 1))
        await publish(own_servers, range(20_000, 20_100))
        await eventually(lambda: has(own_servers, uplink, 20_100))

    messages = await arrived(own_servers)
    assert sorted(numbers_of(messages)) == list(range(20_100))
    assert proof_of(messages).is_complete


@pytest.mark.parametrize("order", ["live-first", "kept"])
async def test_events_when_sender_and_servers_are_killed_in_the_middle_then_each_arrives_once_in_order(
    own_servers: Mesh, tmp_path: Path, order: str
) -> None:
    chance, uplink = random.Random(4), uplink_of(order=order)
    await prepare(own_servers, [uplink])
    await publish(own_servers, range(KILLS * 5_000))

    async with publishing(own_servers, KILLS * 5_000) as published:
        for killed in ["", "lga-nats", "jfk-nats", "hub"] * (KILLS // 4):
            before = (await position(own_servers, uplink)).forwarded
            async with forwarding(own_servers, [uplink], tmp_path):
                await eventually(lambda before=before: has(own_servers, uplink, before + 1))
                await asyncio.sleep(chance.uniform(0, 0.4))
                if killed:
                    await own_servers.kill(killed)
                    await asyncio.sleep(chance.uniform(0, 0.4))
                    await own_servers.start(killed)
                    await linked(own_servers)
    count = published[0]
    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: has(own_servers, uplink, count), THROUGH_S)

    messages = await arrived(own_servers)
    assert sorted(numbers_of(messages)) == list(range(count))
    assert proof_of(messages).is_complete
    if order == "kept":
        assert numbers_of(messages) == list(range(count))


async def test_events_that_retention_took_before_they_were_forwarded_then_each_is_named(
    own_servers: Mesh, tmp_path: Path
) -> None:
    uplink = uplink_of()
    await prepare(own_servers, [uplink], kept_bytes=2_000_000)
    await publish(own_servers, range(1000))
    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: has(own_servers, uplink, 1000))
    await publish(own_servers, range(1000, 60_000))

    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: is_through(own_servers, uplink, 60_000))

    messages, proof = await arrived(own_servers), proof_of(await arrived(own_servers))
    came = numbers_of(messages)
    gone = [number - 1 for first, last in proof.gone for number in range(first, last + 1)]
    assert len(gone) > 10_000
    assert sorted([*came, *gone]) == list(range(60_000))
    assert not proof.missing


async def is_through(mesh: Mesh, uplink: ResolvedUplink, count: int) -> bool:
    there = await position(mesh, uplink)
    return there.live == count and not there.pending


async def test_origin_when_its_stream_begins_again_then_new_events_follow_under_another_numbering(
    own_servers: Mesh, tmp_path: Path
) -> None:
    uplink = uplink_of()
    await prepare(own_servers, [uplink])
    await publish(own_servers, range(500))
    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: has(own_servers, uplink, 500))
    async with own_servers.agent("jfk") as client:
        await client.jetstream().delete_stream(uplink.stream)
    await prepare(own_servers, [])
    await publish(own_servers, range(500, 700))

    async with forwarding(own_servers, [uplink], tmp_path):
        await eventually(lambda: has(own_servers, uplink, 700))

    messages = await arrived(own_servers)
    assert numbers_of(messages) == list(range(700))
    assert (await position(own_servers, uplink)).numbering == 1
    assert not proof_of(messages).missing


async def test_origin_when_it_lost_its_end_then_the_uplink_goes_on_behind_the_last_common_event(
    own_servers: Mesh, tmp_path: Path
) -> None:
    uplink = uplink_of(order="kept")
    await prepare(own_servers, [uplink])
    await publish(own_servers, range(3000))
    await own_servers.stop("jfk-nats")
    kept = own_servers.home.nats("jfk")
    shutil.copytree(kept, tmp_path / "before")
    await own_servers.start("jfk-nats")
    await linked(own_servers)
    await publish(own_servers, range(3000, 5000))
    async with forwarding(own_servers, [uplink], tmp_path / "spent"):
        await eventually(lambda: has(own_servers, uplink, 5000))
    await own_servers.stop("jfk-nats")
    shutil.rmtree(kept)
    shutil.copytree(tmp_path / "before", kept)
    await own_servers.start("jfk-nats")
    await linked(own_servers)
    await publish(own_servers, range(5000, 6000))

    async with forwarding(own_servers, [uplink], tmp_path / "spent"):
        await eventually(lambda: has(own_servers, uplink, 6000))

    messages = await arrived(own_servers)
    assert numbers_of(messages) == list(range(6000))
    found = await position(own_servers, uplink)
    assert (found.numbering, found.live) == (1, 4000)
    assert not proof_of(messages).missing


async def test_uplink_when_its_window_opens_then_it_sends_until_the_budget_is_spent(
    own_servers: Mesh, tmp_path: Path
) -> None:
    opens = now() + timedelta(seconds=4)
    window = {"opens": opens.isoformat(), "closes": (opens + timedelta(hours=1)).isoformat()}
    uplink = uplink_of(windows=[window], bytes_per_window=20_000)
    await prepare(own_servers, [uplink])
    await publish(own_servers, range(1000))

    async with forwarding(own_servers, [uplink], tmp_path) as link:
        await eventually(lambda: link.statuses()[0].state is UplinkState.WINDOW)
        assert link.statuses()[0].opens_at == opens
        await eventually(lambda: link.statuses()[0].state is UplinkState.BUDGET)
        spent = link.statuses()[0].spent_in_window

    messages = await arrived(own_servers)
    assert min(datetime.fromisoformat(m.headers[STORED_AT_HEADER]) for m in messages) >= opens
    assert 15_000 < spent <= 20_000
    assert 0 < len(numbers_of(messages)) < 1000
