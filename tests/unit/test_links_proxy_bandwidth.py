"""A link of limited bandwidth takes as long as it must for what passes, and hardly longer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from test_links_proxy import DEADLINE_S, Ends, connected, running_link, send

from towpath.contracts.links import LinkConditions
from towpath.proxy.transmitter import AHEAD_S, Transmitter
from towpath.proxy.weather import Weather
from towpath.tasks import end

RATE = 1_250_000
"""Bytes per second: 10 Mbit/s."""

LATE_S = 0.02
SLACK_S = 0.15
"""How much longer than it must something may take on a busy machine."""


@asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """The event loop stands still for a moment, again and again."""

    async def stand_still() -> None:
        while True:
            time.sleep(LATE_S)  # noqa: ASYNC251
            await asyncio.sleep(LATE_S)

    standing = asyncio.create_task(stand_still())
    try:
        yield
    finally:
        await end([standing])


async def took_s(sender: Ends, receiver: Ends, size: int) -> float:
    """For bytes to pass, seconds."""
    data = os.urandom(size)
    began = time.monotonic()
    async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as both:
        both.create_task(send(sender, data))
        reading = both.create_task(receiver[0].readexactly(size))
    assert reading.result() == data
    return time.monotonic() - began


async def test_first_bytes_take_their_time_when_the_link_was_idle() -> None:
    async with running_link() as (link, end_of_link):
        near, far = await connected(link, end_of_link)
        link.shape(LinkConditions(bandwidth_bytes_per_s=RATE))
        for _ in range(3):
            assert 0.04 <= await took_s(near, far, RATE // 25) < 0.04 + SLACK_S


async def test_bytes_take_bandwidth_and_delay_when_the_loop_stands_still_at_times() -> None:
    async with running_link() as (link, end_of_link):
        near, far = await connected(link, end_of_link)
        link.shape(LinkConditions(bandwidth_bytes_per_s=RATE, delay_ms=50))
        async with busy_loop():
            assert 0.85 <= await took_s(near, far, RATE * 8 // 10) < 0.85 + SLACK_S


async def test_small_message_waits_shortly_when_a_large_one_passes_on_another_connection() -> None:
    async with running_link() as (link, end_of_link):
        (near, far), (other, other_far) = [await connected(link, end_of_link) for _ in range(2)]
        link.shape(LinkConditions(bandwidth_bytes_per_s=RATE))
        large = asyncio.create_task(took_s(near, far, RATE // 2))
        while not link.passed[0]:
            await asyncio.sleep(0.001)
        assert await took_s(other, other_far, 10) < AHEAD_S + SLACK_S
        assert not large.done()
        assert 0.5 <= await large < 0.5 + SLACK_S


async def test_debts_are_forgiven_when_the_bandwidth_changes() -> None:
    weather = Weather()
    weather.change(LinkConditions(bandwidth_bytes_per_s=10))
    transmitter = Transmitter(weather)
    assert transmitter.send(1_000) > asyncio.get_running_loop().time() + 90
    waiting = asyncio.create_task(transmitter.ready())
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    assert not done
    weather.change(LinkConditions(bandwidth_bytes_per_s=1_000))
    await asyncio.wait_for(waiting, DEADLINE_S)
    assert transmitter.send(100) < asyncio.get_running_loop().time() + 0.2
