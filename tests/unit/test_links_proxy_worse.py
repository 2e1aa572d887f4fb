"""A link loses packets, delivers in slices and resets connections as it is told."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from test_links_proxy import DEADLINE_S, connect, connected, is_broken, passes, running_link, send, until

from towpath.contracts.links import LinkConditions
from towpath.proxy.delay_line import PACKET_BYTES, DelayLine
from towpath.proxy.weather import Weather


async def arrival_s(line: DelayLine, data: bytes) -> float:
    began = time.monotonic()
    await line.put(data)
    assert await asyncio.wait_for(line.get(), DEADLINE_S) == data
    return time.monotonic() - began


async def test_share_of_small_pieces_is_late_by_the_resend_when_the_link_is_lossy() -> None:
    weather = Weather()
    weather.change(LinkConditions(loss_percent=25, resend_ms=20))
    lines = [DelayLine(weather) for _ in range(400)]
    taken = await asyncio.gather(*(arrival_s(line, b"x") for line in lines))
    late = sum(seconds > 0.019 for seconds in taken)
    assert 60 <= late <= 140, "of 400, 100 are to be expected; the deviation is 8.7"
    assert max(taken) >= 0.06, "some are lost twice, and wait 20 ms and 40 ms"


async def test_large_pieces_are_late_more_often_when_the_link_is_lossy() -> None:
    weather = Weather()
    weather.change(LinkConditions(loss_percent=2, resend_ms=30))
    lines = [DelayLine(weather) for _ in range(100)]
    taken = await asyncio.gather(*(arrival_s(line, bytes(40 * PACKET_BYTES)) for line in lines))
    late = sum(seconds > 0.029 for seconds in taken)
    assert 35 <= late <= 75, "1 - 0.98^40 of 100 are to be expected: 55"


async def test_nothing_arrives_late_when_the_link_loses_nothing_any_more() -> None:
    weather = Weather()
    weather.change(LinkConditions(loss_percent=100, resend_ms=60_000))
    line = DelayLine(weather)
    await line.put(b"lost")
    arriving = asyncio.create_task(line.get())
    done, _ = await asyncio.wait([arriving], timeout=0.1)
    assert not done
    weather.change(LinkConditions())
    assert await asyncio.wait_for(arriving, DEADLINE_S) == b"lost"


async def test_bytes_pass_unchanged_when_the_link_is_lossy_and_sliced() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(loss_percent=5, resend_ms=1, jitter_ms=1, slice_bytes=777))
        await passes(near, far, os.urandom(300_000))
        await passes(far, near, os.urandom(200_000))
        assert link.passed == (300_000, 200_000)


async def test_message_comes_in_pieces_and_takes_the_pauses_when_the_link_slices() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(slice_bytes=10, slice_delay_ms=30))
        began = time.monotonic()
        await send(near, bytes(50))
        sizes: list[int] = []
        async with asyncio.timeout(DEADLINE_S):
            while sum(sizes) < 50:
                sizes.append(len(await far[0].read(50)))
        assert sizes == [10] * 5
        assert time.monotonic() - began >= 0.12


async def test_rest_of_a_message_comes_at_once_when_slicing_ends() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(slice_bytes=1, slice_delay_ms=60_000))
        await send(near, b"message")
        assert await asyncio.wait_for(far[0].read(7), DEADLINE_S) == b"m"
        link.restore()
        assert await asyncio.wait_for(far[0].readexactly(6), DEADLINE_S) == b"essage"


async def test_connections_break_again_and_again_when_the_link_resets_them() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(reset_every_s=0.2))
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(far[0].read(1), DEADLINE_S)
        assert await is_broken(near)
        anew = await connected(link, end)
        await passes(*anew, b"works until the next")
        assert await is_broken(anew[0])
        link.restore()
        kept = await connected(link, end)
        assert not await breaks_within(kept[0], 0.5)
        await passes(*kept, b"still here")


async def breaks_within(end: tuple[asyncio.StreamReader, asyncio.StreamWriter], seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            return await is_broken(end)
    except TimeoutError:
        return False


async def test_reset_comes_in_time_when_the_conditions_are_renewed_meanwhile() -> None:
    async with running_link() as (link, _):
        near = await connect(link)
        await until(lambda: link.connections == 1)
        broken = asyncio.create_task(is_broken(near))
        began = time.monotonic()
        while not broken.done() and time.monotonic() < began + DEADLINE_S:
            link.shape(LinkConditions(reset_every_s=0.5, for_s=5))
            await asyncio.wait({broken}, timeout=0.1)
        assert await broken
        assert 0.4 <= time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("conditions", "perfect"),
    [
        (LinkConditions(resend_ms=900, for_s=3), True),
        (LinkConditions(loss_percent=1), False),
        (LinkConditions(slice_bytes=100), False),
        (LinkConditions(reset_every_s=3), False),
    ],
)
def test_link_is_perfect_when_nothing_is_worse(conditions: LinkConditions, perfect: bool) -> None:
    assert conditions.perfect is perfect
