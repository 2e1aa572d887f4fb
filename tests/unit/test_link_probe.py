"""A link is measured as far as it answers, and the probe does not fill a narrow one."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from towpath.bus import Bus
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.metrics import Echo, EchoAnswer
from towpath.mesh import link_probe
from towpath.mesh.link_probe import ANSWER_S, LARGE_S, SMALL_PROBES, LinkProbe


@dataclass
class Way:
    """The parts of a bus that a probe uses: messages larger than `carries` characters never come back."""

    carries: int
    large_deadlines_s: list[float] = field(default_factory=list)
    small: int = 0
    takes_s: float = 0.0
    """Time that passes on the test's clock for each message."""
    clock: list[float] = field(default_factory=lambda: [0.0])

    async def request(self, command: Echo, *, deadline_s: float, attempt_s: float) -> EchoAnswer:
        if command.payload:
            self.large_deadlines_s.append(deadline_s)
        else:
            assert deadline_s == ANSWER_S
            self.small += 1
        self.clock[0] += self.takes_s
        if len(command.payload) > self.carries:
            raise TowpathError(ErrorCode.UNREACHABLE, "no answer")
        return EchoAnswer(payload=command.payload)


async def metrics(probe: LinkProbe) -> list[str]:
    return [sample.metric for sample in await probe.measure("lga")]


def probing(way: Way) -> LinkProbe:
    return LinkProbe(cast(Bus, cast(Any, way)))


async def test_link_when_it_is_too_narrow_for_the_large_message_then_has_a_round_trip() -> None:
    way = Way(carries=1000)
    assert await metrics(probing(way)) == ["link.round_trip"]
    assert way.large_deadlines_s == [LARGE_S]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The probe's clock, which tests set."""
    clock = [100.0]

    def monotonic() -> float:
        clock[0] += 1e-6
        return clock[0]

    monkeypatch.setattr(link_probe, "monotonic", monotonic)
    return clock


async def test_large_message_when_one_came_back_then_is_not_sent_again_until_it_is_due(
    clock: list[float],
) -> None:
    way = Way(carries=100_000)
    probe = probing(way)
    await metrics(probe)
    for moment in (115.0, 399.0):
        clock[0] = moment
        assert await metrics(probe) == ["link.round_trip"]
    assert len(way.large_deadlines_s) == 1
    clock[0] = 401.0
    await metrics(probe)
    assert len(way.large_deadlines_s) == 2
    assert way.small == 4 * SMALL_PROBES


async def test_large_message_when_it_is_lost_once_then_is_sent_again_with_the_next_measurement(
    clock: list[float],
) -> None:
    way = Way(carries=1000)
    probe = probing(way)
    assert await metrics(probe) == ["link.round_trip"]
    clock[0] = 115.0
    way.carries = 100_000
    assert await metrics(probe) == ["link.round_trip", "link.bandwidth"]
    clock[0] = 130.0
    assert await metrics(probe) == ["link.round_trip"]


async def test_large_message_when_it_is_lost_each_time_then_is_sent_twice_at_first_and_once_when_it_is_due(
    clock: list[float],
) -> None:
    way = Way(carries=1000)
    probe = probing(way)
    sent: list[int] = []
    for moment in (100.0, 115.0, 130.0, 414.0, 416.0, 431.0):
        clock[0] = moment
        await metrics(probe)
        sent.append(len(way.large_deadlines_s))
    assert sent == [1, 2, 2, 2, 3, 3]


async def test_large_message_when_the_small_ones_do_not_come_back_then_is_not_sent_but_next_time() -> None:
    way = Way(carries=-1)
    probe = probing(way)
    assert await metrics(probe) == []
    assert way.large_deadlines_s == []
    way.carries = 100_000
    assert await metrics(probe) == ["link.round_trip", "link.bandwidth"]


async def test_large_message_when_the_link_stays_as_it_is_then_is_sent_more_and_more_seldom(
    clock: list[float],
) -> None:
    way = Way(carries=100_000)
    probe = probing(way)
    sent: list[float] = []
    for moment in range(100, 20_000, 15):
        clock[0] = float(moment)
        before = len(way.large_deadlines_s)
        await metrics(probe)
        if len(way.large_deadlines_s) > before:
            sent.append(moment)
    intervals = [round(later - earlier, -2) for earlier, later in pairwise(sent)]
    assert intervals == [300, 600, 1200, 2400, *4 * [3600]]


async def test_large_message_when_round_trips_become_another_link_s_then_is_sent_soon(
    clock: list[float],
) -> None:
    way = Way(carries=100_000, clock=clock)
    probe = probing(way)
    for moment in (100.0, 405.0, 1010.0):
        clock[0] = moment
        await metrics(probe)
    assert len(way.large_deadlines_s) == 3
    way.takes_s = 0.2
    for moment in (1100.0, 1300.0):
        clock[0] = moment
        await metrics(probe)
    assert len(way.large_deadlines_s) == 3
    clock[0] = 1320.0
    await metrics(probe)
    assert len(way.large_deadlines_s) == 4
