"""A link loses packets, delivers in slices and resets connections as it is told."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from test_links_proxy import DEADLINE_S, connect, connected, is_broken, passes, running_link, send, until

from towpath.contracts.links import LinkConditions
from towpath.proxy.delay_line import PACKET_BYTES, DelayLine, Piece
from towpath.proxy.weather import Weather


def delays_s(size: int, conditions: LinkConditions) -> list[float]:
    """How long pieces of a size travel, for 10,000 fates that lie evenly."""
    fates = [(number + 0.5) / 10_000 for number in range(10_000)]
    return [Piece(bytes(size), entered_at=0, luck=0, fate=fate).delay_s(conditions) for fate in fates]


def test_share_of_small_pieces_is_late_by_the_resend_when_the_link_is_lossy() -> None:
    delays = delays_s(1, LinkConditions(loss_percent=25, resend_ms=20))
    lost = {0.0: 0.75, 0.02: 0.1875, 0.06: 0.046875}
    shares = {delay: delays.count(delay) / len(delays) for delay in lost}
    assert shares == pytest.approx(lost, abs=0.001), "lost once, twice: each time it waits twice as long"


def test_large_pieces_are_late_more_often_when_the_link_is_lossy() -> None:
    delays = delays_s(40 * PACKET_BYTES, LinkConditions(loss_percent=2, resend_ms=30))
    assert delays.count(0.0) / len(delays) == pytest.approx(0.98**40, abs=0.001)


def test_waits_have_a_bound_when_the_link_loses_everything() -> None:
    [delay] = set(delays_s(1, LinkConditions(loss_percent=100, resend_ms=200)))
    assert 300 < delay < 1_200, "as TCP, which gives up after about a quarter of an hour"


async def test_piece_is_late_when_it_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.proxy.delay_line.random.random", lambda: 0.8)
    weather = Weather()
    weather.change(LinkConditions(loss_percent=25, resend_ms=80))
    line = DelayLine(weather)
    began = time.monotonic()
    await line.put(b"x")
    assert await asyncio.wait_for(line.get(), DEADLINE_S) == b"x"
    assert time.monotonic() - began >= 0.08


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
