"""A vehicle on its round loses its link where it did before, and nowhere else."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.placement.autopilot.coverage import Fix, Gap, gaps_ahead

ROUND_M = 12_000.0
SPEED = 10.0
"""Metres per second: a round takes 20 minutes."""
ROUND_S = ROUND_M / SPEED
TUNNEL = (6_000.0, 7_200.0)
"""Metres from the beginning of the round: 600 to 720 s after it."""
STOP_S = 90.0
"""Time at the stop at the beginning of each round."""
FAR_S = 3_600.0


def position(metre: float) -> tuple[float, float]:
    """Return degrees north and east of a place on a circle."""
    angle = 2 * math.pi * metre / ROUND_M
    radius = ROUND_M / (2 * math.pi) / 111_195
    return 50 + radius * math.sin(angle), 8 + radius * math.cos(angle) / math.cos(math.radians(50))


class Bus:
    """Drives rounds, tells its position every 5 s, and has no link in the tunnel."""

    def __init__(self, *, direction: int = 1, noise_m: float = 0.0) -> None:
        self.now_s, self._metre, self._direction = 0.0, 0.0, direction
        self._noise = noise_m / 111_195
        self._chance = random.Random(7)
        self.track: list[Fix] = []
        self.gaps: list[Gap] = []

    def drive(self, metres: float, speed: float = SPEED) -> None:
        for _ in range(round(metres / speed / 5)):
            self._step(5 * speed)

    def stand(self, seconds: float) -> None:
        for _ in range(round(seconds / 5)):
            self._step(0.0)

    def _step(self, metres: float) -> None:
        self.now_s += 5.0
        self._metre += metres * self._direction
        wrong = [self._chance.gauss(0, self._noise) if self._noise else 0.0 for _ in range(2)]
        latitude, longitude = position(self._metre)
        self.track.append(Fix(self.now_s, latitude + wrong[0], longitude + wrong[1]))
        if TUNNEL[0] <= self._metre % ROUND_M < TUNNEL[1]:
            if self.gaps and self.gaps[-1].end_s >= self.now_s - 5.0:
                self.gaps[-1] = Gap(self.gaps[-1].begin_s, self.now_s)
            else:
                self.gaps.append(Gap(self.now_s, self.now_s))

    def foresees(self, horizon_s: float = FAR_S) -> list[Gap]:
        return gaps_ahead(self.track, self.gaps, self.now_s, horizon_s)


@pytest.mark.parametrize("noise_m", [0.0, 10.0])
def test_gap_when_the_bus_was_here_before_then_comes_as_it_did(noise_m: float) -> None:
    bus = Bus(noise_m=noise_m)
    bus.drive(2 * ROUND_M + 3_000)

    [gap, *later] = bus.foresees(1_000)

    assert (gap.begin_s, gap.end_s) == (pytest.approx(300, abs=15), pytest.approx(420, abs=15))
    assert later == []


def test_gap_when_the_bus_has_not_been_here_then_is_not_foreseen() -> None:
    bus = Bus()
    bus.drive(ROUND_M - 1_000)

    assert bus.foresees() == []


def test_gap_when_the_bus_goes_the_other_way_then_past_rounds_say_nothing() -> None:
    there = Bus()
    there.drive(2 * ROUND_M)
    back = Bus(direction=-1)
    back.drive(600)
    track = [*there.track, *(Fix(there.now_s + fix.at_s, fix.latitude, fix.longitude) for fix in back.track)]

    assert gaps_ahead(track, there.gaps, there.now_s + back.now_s, FAR_S) == []


def test_gap_when_the_bus_stands_at_its_stop_then_its_beginning_comes_nearer() -> None:
    bus = Bus()
    bus.drive(3_000)
    for _ in range(2):
        bus.stand(STOP_S)
        bus.drive(ROUND_M)
    begins: list[float] = []
    for _ in range(3):
        bus.stand(20)
        begins.append(bus.foresees(900)[0].begin_s)

    assert begins == pytest.approx([370, 350, 330], abs=15)


def test_gap_when_passages_differ_in_speed_then_spans_them_all() -> None:
    bus = Bus()
    bus.drive(3_000)
    bus.drive(ROUND_M, speed=8.0)
    bus.drive(ROUND_M)

    [gap] = bus.foresees(1_000)

    assert gap.begin_s == pytest.approx(300, abs=15)
    assert gap.end_s == pytest.approx(525, abs=30)


def test_gap_when_it_came_in_few_of_the_passages_then_is_not_foreseen() -> None:
    bus = Bus()
    bus.drive(4 * ROUND_M + 3_000)

    assert gaps_ahead(bus.track, bus.gaps[:1], bus.now_s, 1_000) == []
    assert len(gaps_ahead(bus.track, bus.gaps[:2], bus.now_s, 1_000)) == 1


def test_gap_when_the_newest_position_is_old_then_is_not_foreseen() -> None:
    bus = Bus()
    bus.drive(2 * ROUND_M)

    assert gaps_ahead(bus.track, bus.gaps, bus.now_s + 61, FAR_S) == []
    assert gaps_ahead([], [], 0.0, FAR_S) == []


FIXES = st.builds(Fix, st.floats(0, 1e4), st.floats(-89, 89), st.floats(-180, 180))


@given(
    st.lists(FIXES, max_size=30),
    st.lists(st.builds(Gap, st.floats(0, 1e4), st.floats(0, 1e4)), max_size=5),
    st.floats(1, 1e4),
)
def test_gaps_when_positions_are_any_then_come_in_order_within_the_horizon(
    track: list[Fix], gaps: list[Gap], horizon_s: float
) -> None:
    track.sort(key=lambda fix: fix.at_s)
    now_s = track[-1].at_s if track else 0.0

    found = gaps_ahead(track, [gap for gap in gaps if gap.begin_s < gap.end_s], now_s, horizon_s)

    assert all(0 <= gap.begin_s < gap.end_s and gap.begin_s < horizon_s for gap in found)
    assert all(a.end_s < b.begin_s for a, b in pairwise(found))
