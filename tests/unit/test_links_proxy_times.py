"""Data passes a link in exactly the right time: all times are simulated."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from simulation.simulated_time import SimulatedLoop, now_s, simulated
from towpath.contracts.links import LinkConditions
from towpath.lab.proxy.connection import Direction, ProxiedConnection
from towpath.lab.proxy.delay_line import IN_FLIGHT_BYTES, DelayLine
from towpath.lab.proxy.transmitter import AHEAD_S, PIECE_S, Transmitter
from towpath.lab.proxy.weather import Weather
from towpath.tasks import end

RATE = 1_250_000
"""Bytes per second: 10 Mbit/s."""

LATE_S = 0.02
LONG_S = 10_000.0


class Sink:
    """The far end of a connection: writes down what arrives when."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[float, int]] = []
        self.transport = self
        self.ended_at: float | None = None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.arrivals.append((now_s(), len(data)))

    async def drain(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended_at = now_s()


class SimulatedLink:
    """Two directions of a link, without sockets."""

    def __init__(self, conditions: LinkConditions) -> None:
        self.weather = Weather()
        self.weather.change(conditions)
        self.out, self.back = (Direction(Transmitter(self.weather)) for _ in range(2))

    def pass_on(self, size: int, direction: Direction | None = None) -> tuple[Sink, asyncio.Task[None]]:
        """Send bytes on a connection of their own, which then ends; where they arrive."""
        source, sink = StreamReader(), Sink()
        source.feed_data(bytes(size))
        source.feed_eof()
        writer = cast(StreamWriter, sink)
        carrying = ProxiedConnection(self.weather, (source, writer)).carry(
            source, writer, direction or self.out
        )
        return sink, asyncio.create_task(carrying)

    async def took_s(self, size: int, direction: Direction | None = None) -> float:
        """Return the seconds until the last of `size` bytes has arrived."""
        begun = now_s()
        sink, passing = self.pass_on(size, direction)
        await passing
        assert sum(arrived for _, arrived in sink.arrivals) == size
        return sink.arrivals[-1][0] - begun


def exactly(seconds: float) -> Any:
    return pytest.approx(seconds, abs=1e-6)


def test_message_takes_the_delay_when_the_link_has_one_in_each_direction() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(delay_ms=80))
        assert await link.took_s(8, link.out) == exactly(0.08)
        assert await link.took_s(6, link.back) == exactly(0.08)

    simulated(scenario())


def test_delays_lie_evenly_around_the_delay_when_the_link_has_jitter() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(delay_ms=30, jitter_ms=30))
        taken = [await link.took_s(1) for _ in range(300)]
        assert 0 <= min(taken) < 0.02
        assert 0.04 < max(taken) <= 0.06

    simulated(scenario())


def test_order_is_kept_when_the_jitter_is_as_large_as_the_delay() -> None:
    async def scenario() -> None:
        weather = Weather()
        weather.change(LinkConditions(delay_ms=20, jitter_ms=20))
        line = DelayLine(weather)
        sent = [str(number).encode() for number in range(300)]
        for piece in sent:
            await line.put(piece)
        assert [await line.get() for _ in sent] == sent

    simulated(scenario())


@pytest.mark.parametrize("connections", [1, 2])
def test_bytes_take_their_time_when_bandwidth_is_limited_for_all_connections_together(
    connections: int,
) -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(bandwidth_bytes_per_s=200_000))
        taken = await asyncio.gather(*(link.took_s(120_000 // connections) for _ in range(connections)))
        assert max(taken) == exactly(0.6)

    simulated(scenario())


def test_other_direction_has_its_own_bandwidth_when_one_is_full() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(bandwidth_bytes_per_s=10_000))
        _, full = link.pass_on(100_000, link.out)
        await asyncio.sleep(1)
        assert await link.took_s(400, link.back) == exactly(0.04)
        assert not full.done()
        await full

    simulated(scenario())


def test_first_bytes_take_their_time_when_the_link_was_idle() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(bandwidth_bytes_per_s=RATE))
        for _ in range(3):
            await asyncio.sleep(LONG_S)
            assert await link.took_s(RATE // 25) == exactly(0.04)

    simulated(scenario())


@asynccontextmanager
async def busy_loop() -> AsyncIterator[None]:
    """The event loop stands still for a moment, again and again."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)

    async def stand_still() -> None:
        while True:
            loop.stand_still(LATE_S)
            await asyncio.sleep(LATE_S)

    standing = asyncio.create_task(stand_still())
    try:
        yield
    finally:
        await end([standing])


def test_bytes_take_bandwidth_and_delay_when_the_loop_stands_still_at_times() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(bandwidth_bytes_per_s=RATE, delay_ms=50))
        async with busy_loop():
            assert 0.85 <= await link.took_s(RATE * 8 // 10) <= 0.85 + 2 * LATE_S + PIECE_S

    simulated(scenario())


def test_small_message_waits_shortly_when_a_large_one_passes_on_another_connection() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(bandwidth_bytes_per_s=RATE))
        large, passing = link.pass_on(RATE // 2)
        await asyncio.sleep(0.2)
        assert await link.took_s(10) <= AHEAD_S + 2 * PIECE_S
        assert not passing.done()
        await passing
        assert large.ended_at == exactly(0.5 + 10 / RATE)

    simulated(scenario())


def test_message_comes_in_pieces_with_pauses_when_the_link_slices() -> None:
    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(slice_bytes=10, slice_delay_ms=30))
        sink, passing = link.pass_on(50)
        await passing
        assert [size for _, size in sink.arrivals] == [10] * 5
        assert [at for at, _ in sink.arrivals] == exactly([0, 0.03, 0.06, 0.09, 0.12])

    simulated(scenario())


def test_piece_is_late_when_it_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towpath.lab.proxy.delay_line.random.random", lambda: 0.8)

    async def scenario() -> None:
        link = SimulatedLink(LinkConditions(loss_percent=25, resend_ms=80))
        assert await link.took_s(1) == exactly(0.08)

    simulated(scenario())


@pytest.mark.parametrize(
    ("worse", "why"),
    [
        (LinkConditions(delay_ms=60_000), "delayed"),
        (LinkConditions(cut=True), "cut"),
        (LinkConditions(loss_percent=100, resend_ms=60_000), "lost"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_what_is_under_way_arrives_at_once_when_the_link_is_perfect_again(
    worse: LinkConditions, why: str
) -> None:
    async def scenario() -> None:
        weather = Weather()
        weather.change(LinkConditions(delay_ms=50) if worse.cut else worse)
        line = DelayLine(weather)
        await line.put(b"under way")
        arriving = asyncio.create_task(line.get())
        weather.change(worse)
        await asyncio.sleep(50)
        assert not arriving.done(), why
        weather.change(LinkConditions())
        assert await arriving == b"under way"
        assert now_s() == exactly(50)

    simulated(scenario())


def test_sender_has_to_wait_when_too_much_is_in_flight() -> None:
    async def scenario() -> None:
        weather = Weather()
        weather.change(LinkConditions(delay_ms=60_000))
        line = DelayLine(weather)
        for _ in range(IN_FLIGHT_BYTES // 1024):
            await line.put(bytes(1024))
        waiting = asyncio.create_task(line.put(b"one more"))
        await asyncio.sleep(50)
        assert not waiting.done()
        weather.change(LinkConditions())
        assert await line.get() == bytes(1024)
        await waiting

    simulated(scenario())


def test_debts_are_forgiven_when_the_bandwidth_changes() -> None:
    async def scenario() -> None:
        weather = Weather()
        weather.change(LinkConditions(bandwidth_bytes_per_s=10))
        transmitter = Transmitter(weather)
        assert transmitter.send(1_000) == exactly(100)
        waiting = asyncio.create_task(transmitter.ready())
        await asyncio.sleep(50)
        assert not waiting.done()
        weather.change(LinkConditions(bandwidth_bytes_per_s=1_000))
        await waiting
        assert now_s() == exactly(50)
        assert transmitter.send(100) == exactly(50.1)

    simulated(scenario())
