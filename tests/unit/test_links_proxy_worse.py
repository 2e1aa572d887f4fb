"""A link loses packets, delivers in slices and resets connections by its conditions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

import pytest
from test_links_proxy import connected, is_broken, passes, running_link, send

from running.waiting import WITHIN_S
from towpath.contracts.links import LinkConditions
from towpath.lab.proxy import Link
from towpath.lab.proxy.delay_line import PACKET_BYTES, Piece


def delays_s(size: int, conditions: LinkConditions) -> list[float]:
    """Return the travel times of pieces of one size, for 10,000 evenly spaced random values."""
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


async def test_bytes_pass_unchanged_when_the_link_is_lossy_and_sliced() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(loss_percent=5, resend_ms=1, jitter_ms=1, slice_bytes=777))
        await passes(near, far, os.urandom(300_000))
        await passes(far, near, os.urandom(200_000))
        assert link.passed == (300_000, 200_000)


async def test_rest_of_a_message_comes_at_once_when_slicing_ends() -> None:
    async with running_link() as (link, end):
        near, far = await connected(link, end)
        link.shape(LinkConditions(slice_bytes=1, slice_delay_ms=60_000))
        await send(near, b"message")
        assert await asyncio.wait_for(far[0].read(7), WITHIN_S) == b"m"
        link.restore()
        assert await asyncio.wait_for(far[0].readexactly(6), WITHIN_S) == b"essage"


class Timers:
    """The loop's timers of a link, which go off when a test says so."""

    def __init__(self, link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set: list[tuple[float, asyncio.TimerHandle]] = []
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def keep(delay_s: float, callback: Callable[..., Any], *arguments: Any) -> asyncio.TimerHandle:
            if getattr(callback, "__self__", None) is not link:
                return call_later(delay_s, callback, *arguments)
            handle = asyncio.TimerHandle(loop.time() + delay_s, callback, arguments, loop)
            self.set.append((delay_s, handle))
            return handle

        monkeypatch.setattr(loop, "call_later", keep)

    @property
    def running(self) -> list[tuple[float, asyncio.TimerHandle]]:
        return [(delay_s, handle) for delay_s, handle in self.set if not handle.cancelled()]

    def go_off(self) -> float:
        """Let the only one that runs go off; after how many seconds that is."""
        [(delay_s, handle)] = self.running
        handle._run()
        handle.cancel()
        return delay_s


async def test_connections_break_again_and_again_when_the_link_resets_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_link() as (link, end):
        timers = Timers(link, monkeypatch)
        near, far = await connected(link, end)
        await passes(near, far, b"works until the first")
        link.shape(LinkConditions(reset_every_s=0.2))
        assert timers.go_off() == 0.2
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(far[0].read(1), WITHIN_S)
        assert await is_broken(near)
        anew = await connected(link, end)
        await passes(*anew, b"works until the next")
        assert timers.go_off() == 0.2
        assert await is_broken(anew[0])
        link.restore()
        assert timers.running == []
        await passes(*await connected(link, end), b"still here")


async def test_reset_is_not_put_off_when_the_conditions_are_renewed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_link() as (link, end):
        timers = Timers(link, monkeypatch)
        near, _ = await connected(link, end)
        link.shape(LinkConditions(reset_every_s=0.5))
        [first] = timers.running
        for _ in range(3):
            link.shape(LinkConditions(reset_every_s=0.5))
        assert timers.running == [first]
        timers.go_off()
        assert await is_broken(near)


async def test_connection_is_reset_when_the_interval_has_passed() -> None:
    async with running_link() as (link, end):
        near, _ = await connected(link, end)
        link.shape(LinkConditions(reset_every_s=0.1))
        assert await is_broken(near)


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
