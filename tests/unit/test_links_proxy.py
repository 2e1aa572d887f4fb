"""A link passes everything unchanged, or as badly as its conditions say."""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from running.waiting import WITHIN_S, eventually
from towpath.contracts.links import LinkConditions, OneWay
from towpath.lab.proxy import FROM_REDIS, Link, LinkRoute

SILENCE_S = 0.2
"""Time to wait before a test concludes that nothing arrives. Other data arrives in milliseconds."""

Ends = tuple[StreamReader, StreamWriter]


class FarEnd:
    """A server behind the link."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Ends] = asyncio.Queue()
        self.connections = 0

    def on_connection(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        self.accepted.put_nowait((reader, writer))


@asynccontextmanager
async def far_end() -> AsyncIterator[tuple[FarEnd, int]]:
    end = FarEnd()
    async with await asyncio.start_server(end.on_connection, "127.0.0.1", 0) as server:
        yield end, server.sockets[0].getsockname()[1]


def route_to(port: int) -> LinkRoute:
    """From a port that the system chooses."""
    return LinkRoute(("127.0.0.1", 0), (("127.0.0.1", port),))


@asynccontextmanager
async def running_link(
    on_restored: Callable[[str], None] | None = None,
) -> AsyncIterator[tuple[Link, FarEnd]]:
    async with (
        far_end() as (end, port),
        Link("jfk", [route_to(port)], on_restored=on_restored) as link,
    ):
        yield link, end


async def connect(link: Link) -> Ends:
    return await asyncio.open_connection("127.0.0.1", link.ports[0])


async def connected(link: Link, end: FarEnd) -> tuple[Ends, Ends]:
    """A connection through the link: its near end and its far end."""
    near = await connect(link)
    async with asyncio.timeout(WITHIN_S):
        return near, await end.accepted.get()


async def passes(sender: Ends, receiver: Ends, data: bytes) -> None:
    """Fails unless `data` arrives unchanged."""
    async with asyncio.timeout(WITHIN_S):
        async with asyncio.TaskGroup() as both:
            both.create_task(send(sender, data))
            reading = both.create_task(receiver[0].readexactly(len(data)))
    assert reading.result() == data


async def send(end: Ends, data: bytes) -> None:
    end[1].write(data)
    await end[1].drain()


async def is_silent(end: Ends) -> bool:
    """True if nothing arrives: no byte, and no end of the connection."""
    try:
        async with asyncio.timeout(SILENCE_S):
            await end[0].read(1)
    except TimeoutError:
        return True
    return False


async def is_broken(end: Ends) -> bool:
    """True if the connection ends without another byte."""
    try:
        async with asyncio.timeout(WITHIN_S):
            return await end[0].read(1) == b""
    except ConnectionResetError:
        return True


async def test_connection_leads_to_one_that_answers_when_others_do_not() -> None:
    async with far_end() as (_, gone):
        pass
    async with far_end() as (end, port):
        ends = (("127.0.0.1", gone), ("127.0.0.1", port))
        async with Link("jfk", [LinkRoute(("127.0.0.1", 0), ends)]) as link:
            for _ in range(8):  # The order is random.
                await passes(*await connected(link, end), b"hello")


async def test_bytes_pass_unchanged_both_ways_when_the_link_is_perfect() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        await passes(near, far, os.urandom(3_000_000))
        await passes(far, near, os.urandom(2_000_000))
        assert link.passed == (3_000_000, 2_000_000)


async def test_end_of_one_direction_passes_when_the_other_goes_on() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        near[1].write(b"last words")
        near[1].write_eof()
        assert await far[0].read() == b"last words"
        await passes(far, near, b"an answer")
        far[1].close()
        assert await is_broken(near)
        await eventually(lambda: link.connections == 0)


async def test_connection_breaks_when_no_one_listens_at_the_far_end() -> None:
    async with far_end() as (_, port):
        pass
    async with Link("jfk", [route_to(port)]) as link:
        assert await is_broken(await connect(link))


async def test_connection_breaks_when_the_far_end_breaks_it() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        await passes(near, far, b"before")
        far[1].transport.abort()
        assert await is_broken(near)


async def test_round_trip_takes_both_delays_when_the_link_has_one() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(delay_ms=80))
        began = time.monotonic()
        await passes(near, far, b"question")
        await passes(far, near, b"answer")
        assert time.monotonic() - began >= 0.16


@pytest.mark.parametrize("connections", [1, 2])
async def test_bytes_take_their_time_when_bandwidth_is_limited(connections: int) -> None:
    """All connections together have the bandwidth of the link."""
    async with running_link() as (link, end):
        pairs = [await connected(link, end) for _ in range(connections)]
        link.shape(LinkConditions(bandwidth_bytes_per_s=200_000))
        data = os.urandom(120_000 // connections)
        began = time.monotonic()
        await asyncio.gather(*(passes(near, far, data) for near, far in pairs))
        assert time.monotonic() - began >= 0.5


async def test_other_direction_has_its_own_bandwidth_when_one_is_full() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(bandwidth_bytes_per_s=1_000))
        await send(near, bytes(1_000_000))
        await passes(far, near, bytes(100))
        assert link.passed[0] < 1_000_000


async def test_nothing_passes_and_no_one_is_told_when_the_link_is_cut() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        await passes(near, far, b"before")
        link.shape(LinkConditions(cut=True))
        await send(near, b"to the hub")
        await send(far, b"to the site")
        assert await is_silent(far)
        assert await is_silent(near)


async def test_only_one_direction_passes_when_the_other_is_cut_and_connections_break_when_that_ends() -> None:
    for way in (OneWay.TO_HUB, OneWay.TO_SITE):
        async with running_link() as (link, end):
            near, far = await connected(link, end)
            cut, whole = ((near, far), (far, near)) if way is OneWay.TO_HUB else ((far, near), (near, far))
            link.shape(LinkConditions(cut_only=way))
            await send(cut[0], b"held back")
            assert await is_silent(cut[1])
            await passes(*whole, b"arrives")
            link.restore()
            assert await is_broken(near)
            await passes(*await connected(link, end), b"again")


async def test_answers_of_redis_are_held_back_and_those_of_the_hub_pass_when_only_they_are_cut() -> None:
    async with far_end() as (hub, hub_port), far_end() as (redis, redis_port):
        to_redis = LinkRoute(("127.0.0.1", 0), (("127.0.0.1", redis_port),), FROM_REDIS)
        async with Link("jfk", [route_to(hub_port), to_redis]) as link:
            near_hub, far_hub = await connected(link, hub)
            near_redis = await asyncio.open_connection("127.0.0.1", link.ports[1])
            far_redis = await redis.accepted.get()
            link.shape(LinkConditions(cut_only=OneWay.FROM_REDIS))
            await passes(near_redis, far_redis, b"question")
            await send(far_redis, b"answer")
            assert await is_silent(near_redis)
            await passes(far_hub, near_hub, b"from the hub")


async def test_old_connections_break_and_new_ones_work_when_a_cut_ends() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(cut=True))
        await send(near, b"lost")
        link.restore()
        assert await is_broken(near)
        assert await is_broken(far)
        await passes(*await connected(link, end), b"again")


async def test_old_connections_break_when_a_cut_becomes_a_delay() -> None:
    async with running_link() as (link, end):
        near, _ = await connected(link, end)
        link.shape(LinkConditions(cut=True))
        link.shape(LinkConditions(delay_ms=5))
        assert await is_broken(near)
        await passes(*await connected(link, end), b"again")


async def test_connection_stays_when_conditions_change_without_a_cut() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(delay_ms=5))
        link.restore()
        await passes(near, far, b"still here")


async def test_new_connection_leads_nowhere_when_the_link_is_cut() -> None:
    async with running_link() as (link, end):
        link.shape(LinkConditions(cut=True))
        near = await connect(link)
        await send(near, b"hello?")
        assert await is_silent(near)
        assert end.connections == 0
        link.restore()
        assert await is_broken(near)
        assert end.connections == 0


async def test_connection_is_forgotten_when_its_maker_gives_up_during_a_cut() -> None:
    async with running_link() as (link, _):
        link.shape(LinkConditions(cut=True))
        _, writer = await connect(link)
        await eventually(lambda: link.connections == 1)
        writer.close()
        await eventually(lambda: link.connections == 0)


async def test_link_restores_itself_and_says_so_when_its_time_is_over() -> None:
    restored: list[str] = []
    async with running_link(restored.append) as (link, end):
        near, _ = await connected(link, end)
        link.shape(LinkConditions(cut=True, for_s=0.2))
        left = link.left_s
        assert left is not None
        assert 0 <= left <= 0.2
        assert await is_broken(near)
        assert (restored, link.conditions, link.left_s) == (["jfk"], LinkConditions(), None)


async def test_earlier_time_is_forgotten_when_new_conditions_come() -> None:
    restored: list[str] = []
    async with running_link(restored.append) as (link, _):
        link.shape(LinkConditions(delay_ms=1, for_s=0.05))
        link.shape(LinkConditions(delay_ms=2))
        await asyncio.sleep(SILENCE_S)
        assert not restored
        assert link.conditions == LinkConditions(delay_ms=2)


@pytest.mark.parametrize(
    "conditions", [LinkConditions(delay_ms=60_000), LinkConditions(bandwidth_bytes_per_s=10)]
)
async def test_what_is_under_way_arrives_at_once_when_the_link_is_restored(
    conditions: LinkConditions,
) -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(conditions)
        data = os.urandom(100_000)
        await send(near, data)
        assert len(data) > link.passed[0]
        link.restore()
        async with asyncio.timeout(WITHIN_S):
            assert await far[0].readexactly(len(data)) == data


async def test_sender_has_to_wait_when_the_receiver_does_not_read() -> None:
    """Link, sockets and far end together hold a limited number of bytes."""
    size = 64 * 1024**2
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        sending = asyncio.create_task(send(near, bytes(size)))
        await eventually(lambda: link.passed[0] > 0)
        seen = -1
        while seen != link.passed[0]:
            seen = link.passed[0]
            done, _ = await asyncio.wait([sending], timeout=SILENCE_S)
            assert not done
        assert seen < size
        async with asyncio.timeout(WITHIN_S):
            assert len(await far[0].readexactly(size)) == size
            await sending


async def test_routes_of_a_link_share_its_bandwidth_and_its_fate() -> None:
    async with (
        far_end() as (one, first),
        far_end() as (other, second),
        Link("jfk", [route_to(first), route_to(second)]) as link,
    ):
        link.shape(LinkConditions(bandwidth_bytes_per_s=1_000_000))
        begun = time.monotonic()
        ends = [await asyncio.open_connection("127.0.0.1", port) for port in link.ports]
        async with asyncio.timeout(WITHIN_S):
            far = [await one.accepted.get(), await other.accepted.get()]
        await asyncio.gather(
            *(passes(near, there, b"x" * 200_000) for near, there in zip(ends, far, strict=True))
        )
        assert time.monotonic() - begun > 0.3
        assert link.passed == (400_000, 0)
        link.shape(LinkConditions(cut=True))
        for near in ends:
            near[1].write(b"into nowhere")
        await asyncio.sleep(SILENCE_S)
        assert link.passed == (400_000, 0)


async def test_both_ends_are_told_when_the_link_ends() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        await passes(near, far, b"here")
        [port] = link.ports
        await link.__aexit__(None, None, None)
        assert await is_broken(near)
        assert await is_broken(far)
        with pytest.raises(OSError, match=str(port)):
            await asyncio.open_connection("127.0.0.1", port)
