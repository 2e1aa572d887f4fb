"""The simulation of the autopilot holds together, over two days."""

from __future__ import annotations

from autopilot_play import Play
from autopilot_strategies import Exhaustive, Forecasting, Never, Threshold
from autopilot_world import HOME, world


def test_play_when_no_job_moves_then_goals_break_in_busy_hours_alone() -> None:
    played = Play(world(2), Never())

    outcome = played.run()

    assert played.placement == HOME
    assert outcome.moves == outcome.moving_s == 0
    assert 0 < sum(outcome.late_s.values()) < 2 * 86_400 * len(HOME)


def test_play_when_the_autopilot_decides_then_it_breaks_fewer_goals_with_fewer_moves_than_a_threshold() -> (
    None
):
    two_days = world(2)

    autopilot = Play(two_days, Forecasting(two_days, Exhaustive())).run()
    threshold = Play(two_days, Threshold()).run()

    assert sum(autopilot.late_s.values()) < sum(threshold.late_s.values()) / 2
    assert 0 < autopilot.moves < threshold.moves
    assert autopilot.refused == 0
