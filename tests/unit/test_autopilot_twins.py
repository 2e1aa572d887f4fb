"""When a job gets a twin, where, and which of the two runs goes on alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from towpath.placement.autopilot.outlook import Cause, Window, outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.autopilot.twins import (
    Ending,
    TwinCourse,
    TwinRules,
    expected_delay_s,
    limit_s,
    twin_place,
)
from towpath.placement.jobs.hub_links import links_over_hub
from towpath.placement.jobs.view import Job, Link, MeshView, Site, Source

RULES = TwinRules(dwell_s=30.0, stays_s=120.0)
GOAL_S = 2.0


def situation(*windows: Window, busy_cores: float = 0.1) -> Situation:
    """A job at `edge`, and one that is busy at `near`, which has two cores like `far`."""
    names = ("edge", "near", "far")
    view = MeshView(
        sites=tuple(Site(name, 2.0, 1000.0) for name in names),
        links=tuple(links_over_hub([Link(name, name, 0.01, 1e7) for name in names])),
        sources=(Source("raw", "edge", 100.0, 200.0),),
        jobs=(
            Job("slow", ("raw",), 0.001, 100.0, output_site="edge"),
            Job("busy", ("raw",), busy_cores / 100.0, 100.0, output_site="near"),
        ),
    )
    ahead = outlook(view, 600.0, {}, 60.0, windows, {})
    return Situation(ahead, {"slow": "edge", "busy": "near"}, {"slow": GOAL_S, "busy": GOAL_S}, Rules())


@pytest.mark.parametrize(
    ("backlog", "events_per_s", "expected"),
    [(0, 100, 1.5), (150, 100, 1.5), (1150, 100, 11.5), (0, 0, 1.5), (10, 0, math.inf)],
)
def test_delay_when_events_wait_then_is_the_time_in_which_as_many_come(
    backlog: float, events_per_s: float, expected: float
) -> None:
    assert expected_delay_s(0.5, 1.0, backlog, events_per_s) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("goal_s", "straggler", "equals", "expected"),
    [
        (2.0, None, [1.0, 1.0, 9.0], 2.0),
        (None, 0.5, [1.0, 1.0, 9.0], 1.5),
        (2.0, 0.5, [1.0, 1.0, 9.0], 1.5),
        (1.0, 0.5, [1.0, 1.0, 9.0], 1.0),
        (None, 0.5, [1.0, 9.0], math.inf),
    ],
)
def test_limit_when_a_job_has_a_goal_or_equals_then_is_the_least_of_both(
    goal_s: float | None, straggler: float | None, equals: list[float], expected: float
) -> None:
    assert limit_s(goal_s, straggler, equals) == expected


def test_place_when_several_sites_have_room_then_is_one_where_the_job_keeps_its_goal() -> None:
    assert twin_place(situation(), "slow") in {"near", "far"}
    assert twin_place(situation(), "slow", apart=["near"]) == "far"


def test_place_when_a_site_is_busy_or_will_be_gone_then_is_another() -> None:
    assert twin_place(situation(busy_cores=1.55), "slow") == "far"
    assert twin_place(situation(Window("near", Cause.DOWN, 60.0, 120.0)), "slow") == "far"


def test_place_when_all_sites_are_busy_or_will_be_gone_then_there_is_none() -> None:
    gone = Window("far", Cause.LINK, 60.0, 120.0)
    assert twin_place(situation(gone, busy_cores=1.55), "slow") is None


def test_place_when_the_job_is_bound_to_its_site_then_there_is_none() -> None:
    found = situation()
    phases = tuple(
        replace(
            phase, view=replace(phase.view, jobs=tuple(replace(j, pinned="edge") for j in phase.view.jobs))
        )
        for phase in found.ahead.phases
    )
    assert twin_place(replace(found, ahead=replace(found.ahead, phases=phases)), "slow") is None


def ending(*looks: tuple[float, float], every_s: float = 10.0) -> tuple[Ending | None, float]:
    """Return the ending and the time of the look that brought it, after looks at both delays."""
    course, now_s = TwinCourse(), 0.0
    for source_s, target_s in looks:
        course = course.seen(source_s, target_s, GOAL_S, now_s, RULES)
        if (end := course.ending(now_s, RULES)) is not None:
            return end, now_s
        now_s += every_s
    return None, now_s


WELL, SLOW = 1.0, 5.0


def test_twin_when_the_source_is_well_for_some_time_then_it_goes_on_alone() -> None:
    assert ending(*[(SLOW, WELL)] * 3, *[(WELL, WELL)] * 9) == (Ending.SOURCE, 60.0)


def test_twin_when_the_source_stays_slow_then_the_job_stays_where_it_is_faster() -> None:
    assert ending(*[(SLOW, WELL)] * 20) == (Ending.TARGET, 120.0)


def test_twin_when_the_source_is_just_below_its_goal_then_it_is_not_well() -> None:
    assert ending(*[(0.9 * GOAL_S, WELL)] * 5)[0] is None


def test_twin_when_the_source_is_well_by_turns_then_both_go_on() -> None:
    assert ending(*[(SLOW, WELL), (WELL, WELL)] * 20)[0] is None


def test_twin_when_it_is_slower_than_the_source_then_is_ended() -> None:
    assert ending(*[(SLOW, 2 * SLOW)] * 9) == (Ending.SOURCE, 30.0)


def test_twin_when_the_source_does_nothing_then_the_target_goes_on_in_the_end() -> None:
    assert ending(*[(math.inf, WELL)] * 20)[0] is Ending.TARGET
