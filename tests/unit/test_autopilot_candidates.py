"""Decisions where a policy alone has no answer: hopeless jobs, backlogs, swaps, and moves in vain."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from towpath.placement.autopilot.deciding import Decision, Verdict, decide
from towpath.placement.autopilot.outlook import Cause, Outlook, Window, outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.autopilot.violations import predict
from towpath.placement.jobs.evaluation import arrivals
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.policies.performance import Performance
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

RULES = Rules(agreeing=1)
CLEAN = Job("clean", ("sensors",), cpu_s_per_event=0.01, memory_mb=100, bytes_per_event=100)
WINDOW = Job("window", ("clean",), cpu_s_per_event=0.005, memory_mb=100)
REPORT = Job("report", ("rain",), cpu_s_per_event=0.01, memory_mb=100, pinned="cloud")
VIEW = MeshView(
    sites=(Site("edge", 2, 1000), Site("cloud", 8, 1000), Site("island", 0, 0)),
    links=(Link("edge", "cloud", 0.05),),
    sources=(Source("sensors", "edge", 50, 100), Source("rain", "island", 10, 100)),
    jobs=(CLEAN, WINDOW),
)
CUT_OFF = replace(VIEW, jobs=(CLEAN, WINDOW, REPORT))
"""`report` reads a source at an island without a link."""
AT_EDGE = {"clean": "edge", "window": "edge"}
BUSY = [150.0] * 10
"""Events/s for which `clean` needs 1.5 cores, and `window` 0.75."""
END = Window("edge", Cause.BATTERY, from_s=100, to_s=math.inf)


def ahead(view: MeshView, *windows: Window, **rates: list[float]) -> Outlook:
    return outlook(view, RULES.horizon_s, rates, step_s=60, windows=windows)


def decided(near: Outlook, places: Placement = AT_EDGE, **more: Any) -> Decision:
    return decide(Situation(near, places, dict.fromkeys(places, 1.0), RULES, **more), Performance())


def test_decision_when_nothing_helps_one_job_then_the_others_move_all_the_same() -> None:
    current = {**AT_EDGE, "report": "cloud"}

    found = decided(ahead(CUT_OFF, sensors=BUSY), current)

    assert found.verdict is Verdict.MOVE
    assert {move.job for move in found.moves} <= {"clean", "window"}
    assert found.moving is not None
    assert found.moving.late_s == {"clean": 0, "window": 0, "report": 600}


def test_decision_when_a_hopeless_job_is_late_now_then_moves_for_later_wait_all_the_same() -> None:
    view = replace(
        CUT_OFF, sources=(Source("sensors", "cloud", 50, 100), *VIEW.sources[1:]), jobs=(CLEAN, REPORT)
    )
    current = {"clean": "edge", "report": "cloud"}

    found = decided(ahead(view, END), current)

    assert (found.verdict, found.moves) == (Verdict.TOO_EARLY, (Move("clean", "edge", "cloud"),))
    assert found.due_s == pytest.approx(100 - 3 * 5 - 5)


def test_decision_when_a_job_cannot_leave_then_the_others_move_all_the_same() -> None:
    view = replace(
        VIEW, sites=(*VIEW.sites, Site("hut", 0, 1000)), links=(*VIEW.links, Link("hut", "edge", 1))
    )
    view = replace(view, jobs=(CLEAN, WINDOW, replace(REPORT, inputs=("sensors",), pinned=None)))
    current = {**AT_EDGE, "report": "hut"}

    found = decided(
        ahead(view, sensors=BUSY), current, move_s=lambda move: math.inf if move.origin == "hut" else 5.0
    )

    assert found.verdict is Verdict.MOVE
    assert "report" not in {move.job for move in found.moves}


def test_decision_when_work_waits_where_there_are_cores_for_new_work_then_the_job_moves() -> None:
    waiting = replace(ahead(VIEW), waiting={"clean": 1200.0})

    found = decided(waiting)

    assert found.verdict is Verdict.MOVE
    assert Move("clean", "edge", "cloud") in found.moves


def test_decision_when_two_sites_would_swap_jobs_then_only_the_move_that_helps_is_made() -> None:
    # At 250 events/s `clean` needs 2.5 cores, more than the edge has. Then `window` would fit there, where
    # its results are kept.
    view = replace(VIEW, jobs=(CLEAN, replace(WINDOW, output_site="edge")))
    current = {"clean": "edge", "window": "cloud"}

    found = decided(ahead(view, sensors=[250.0] * 10), current)

    assert (found.verdict, found.moves) == (Verdict.MOVE, (Move("clean", "edge", "cloud"),))


def test_prediction_when_work_waits_then_latency_is_that_of_the_evaluation_with_these_waits() -> None:
    # 133 1/3 events/s need exactly the 2 cores of the edge: 3 core-seconds wait for 1.5 s all the time.
    view = replace(VIEW, sources=(Source("sensors", "edge", 400 / 3, 100), VIEW.sources[1]))
    always = replace(ahead(view), waiting={"clean": 3.0})
    latency_s = arrivals(view, AT_EDGE, {"edge": 1.5})["window"]

    late_s = [
        predict(always, AT_EDGE, {"window": latency_s + more_s}).late_s["window"] for more_s in (-1e-6, 1e-6)
    ]

    assert late_s == [pytest.approx(600), 0]
