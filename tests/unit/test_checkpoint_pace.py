"""A transfer leaves processors to the jobs that run meanwhile."""

from __future__ import annotations

import pytest

from towpath.checkpoints import transfer
from towpath.checkpoints.transfer import HURRIED_S, LONGEST_REST_S, PATIENCE, Pace


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(transfer, "time", clock)
    return clock


def rest_after(pace: Pace, clock: Clock, *worked_s: float) -> float:
    for each in worked_s:
        with pace.work():
            clock.now += each
    return pace.rest_s()


def test_rest_when_a_transfer_is_young_then_is_as_many_times_its_work_as_told(clock: Clock):
    pace = Pace(2.0)
    assert rest_after(pace, clock, 0.01, 0.02) == pytest.approx(0.06)
    clock.now += 100  # Waiting is no work.
    assert rest_after(pace, clock) == 0
    assert rest_after(pace, clock, 0.01) == pytest.approx(0.02)


def test_rest_when_a_transfer_is_long_then_is_longer(clock: Clock):
    pace = Pace(1.0)
    rest_after(pace, clock, HURRIED_S)
    assert rest_after(pace, clock, 0.01) == pytest.approx(PATIENCE * 0.01)


def test_rest_when_a_chunk_waited_for_its_link_then_is_bounded(clock: Clock):
    assert rest_after(Pace(1.0), clock, 30.0) == LONGEST_REST_S


def test_rest_when_no_one_else_works_then_is_none(clock: Clock):
    assert rest_after(Pace(0.0), clock, HURRIED_S, 5.0) == 0
