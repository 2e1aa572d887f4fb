"""Decisions of the autopilot in small meshes: what moves, when, and what the rules refuse."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from towpath.placement.autopilot.deciding import Decision, Past, Verdict, decide
from towpath.placement.autopilot.outlook import Cause, Outlook, Window, outlook
from towpath.placement.autopilot.rules import Rules
from towpath.placement.autopilot.situation import Situation
from towpath.placement.autopilot.violations import predict
from towpath.placement.jobs.moves import Move
from towpath.placement.jobs.policies.energy import Energy
from towpath.placement.jobs.policies.performance import Performance
from towpath.placement.jobs.view import Job, Link, MeshView, Placement, Site, Source

RULES = Rules(agreeing=1)
COUNT = Job("count", ("sensors",), cpu_s_per_event=0.01, memory_mb=100, output_site="cloud")
VIEW = MeshView(
    sites=(Site("train", 2, 1000), Site("cloud", 2, 1000)),
    links=(Link("train", "cloud", 0.05),),
    sources=(Source("sensors", "cloud", events_per_s=50, bytes_per_event=100),),
    jobs=(COUNT,),
)
ON_TRAIN = {"count": "train"}
GOALS = {"count": 1.0}
TUNNEL = Window("train", Cause.LINK, from_s=100, to_s=200)
TO_CLOUD = (Move("count", "train", "cloud"),)


def ahead(view: MeshView = VIEW, *windows: Window, **rates: list[float]) -> Outlook:
    return outlook(view, RULES.horizon_s, rates, step_s=60, windows=windows)


def decided(near: Outlook, places: Placement = ON_TRAIN, rules: Rules = RULES, **known: Past) -> Decision:
    situation = Situation(near, places, dict.fromkeys(places, 1.0), rules)
    return decide(situation, Performance(), now_s=1000, **known)


def test_prediction_when_a_tunnel_is_ahead_then_the_job_on_board_is_late_in_it() -> None:
    found = predict(ahead(VIEW, TUNNEL), ON_TRAIN, GOALS)

    assert found.late_s == {"count": pytest.approx(100)}
    assert found.begin_s["count"] == pytest.approx(100)


def test_prediction_when_more_comes_than_a_site_can_do_then_jobs_are_late_until_it_is_worked_off() -> None:
    # 5 minutes with 3 of 2 cores leave 300 core-seconds, which 1.5 free cores work off in 200 s.
    found = predict(ahead(VIEW, sensors=[300.0] * 5 + [50.0]), {"count": "cloud"}, GOALS)

    assert found.late_s["count"] == pytest.approx(500, abs=20)


def test_prediction_when_micro_batches_take_all_cores_then_no_work_waits() -> None:
    full = replace(VIEW, jobs=(replace(COUNT, fixed_cores=2.0),))

    assert predict(ahead(full), ON_TRAIN, GOALS).total_late_s == 0


def test_prediction_when_a_site_may_fail_then_its_jobs_are_late_in_that_share_of_the_time() -> None:
    shaky = replace(VIEW, sites=(Site("train", 2, 1000, stability=0.9), VIEW.sites[1]))

    found = predict(ahead(shaky), ON_TRAIN, GOALS)

    assert found.late_s["count"] == pytest.approx(60)
    assert math.isinf(found.begin_s["count"])


def test_outlook_when_conditions_change_then_has_a_phase_for_each() -> None:
    found = ahead(VIEW, TUNNEL, Window("train", Cause.DOWN, 150, 300))

    assert [phase.seconds for phase in found.phases] == [100, 50, 150, 300]
    assert [len(phase.view.links) for phase in found.phases] == [1, 0, 0, 1]
    assert [phase.view.site["train"].cores for phase in found.phases] == [2, 2, 0, 2]


def test_decision_when_all_goes_well_then_nothing_moves() -> None:
    assert decided(ahead()).verdict is Verdict.CONTENT


def test_decision_when_a_tunnel_comes_later_then_the_job_waits_until_it_is_time() -> None:
    found = decided(ahead(VIEW, TUNNEL))

    assert (found.verdict, found.moves) == (Verdict.TOO_EARLY, TO_CLOUD)
    assert found.due_s == pytest.approx(100 - 3 * 5 - 5)


def test_decision_when_a_tunnel_is_near_then_the_job_leaves_before() -> None:
    found = decided(ahead(VIEW, replace(TUNNEL, from_s=15)))

    assert (found.verdict, found.moves) == (Verdict.MOVE, TO_CLOUD)
    assert (found.gain_s, found.cost_s) == (pytest.approx(185, abs=10), 5)


@pytest.mark.parametrize("cause", [Cause.DOWN, Cause.BATTERY])
def test_decision_when_a_site_ends_soon_then_its_jobs_leave(cause: Cause) -> None:
    found = decided(ahead(VIEW, Window("train", cause, 10, 9999)))

    assert (found.verdict, found.moves) == (Verdict.MOVE, TO_CLOUD)


def test_decision_when_the_load_will_be_too_much_then_the_job_goes_where_there_is_room() -> None:
    roomy = replace(VIEW, sites=(VIEW.sites[0], Site("cloud", 8, 1000)))

    found = decided(ahead(roomy, sensors=[300.0] * 10))

    assert (found.verdict, found.moves) == (Verdict.MOVE, TO_CLOUD)


def test_decision_when_a_tunnel_is_short_then_moving_is_too_dear() -> None:
    short = Window("train", Cause.LINK, from_s=0, to_s=8)

    assert decided(ahead(VIEW, short)).verdict is Verdict.TOO_DEAR


def test_decision_when_its_source_is_cut_off_too_then_the_job_stays() -> None:
    aboard = replace(VIEW, sources=(replace(VIEW.sources[0], site="train"),))

    found = decided(ahead(aboard, replace(TUNNEL, from_s=0)))

    assert found.verdict is Verdict.CONTENT


def test_decision_when_looks_must_agree_then_the_second_one_moves() -> None:
    near, rules = ahead(VIEW, replace(TUNNEL, from_s=0)), replace(RULES, agreeing=2)

    first = decided(near, rules=rules)
    second = decided(near, rules=rules, past=first.remembered(Past()))

    assert (first.verdict, second.verdict) == (Verdict.UNCONFIRMED, Verdict.MOVE)


@pytest.mark.parametrize(
    ("past", "verdict"),
    [
        (Past(moved_at_s={"count": [990.0] * 20}), Verdict.BUDGET),
        (Past(vetoed=frozenset({("count", "cloud")})), Verdict.VETOED),
        (Past(moved_at_s={"count": [990.0]}), Verdict.MOVE),
    ],
)
def test_decision_when_the_past_forbids_a_move_then_it_waits(past: Past, verdict: Verdict) -> None:
    near = ahead(VIEW, replace(TUNNEL, from_s=0))

    assert decided(near, past=past).verdict is verdict


def test_decision_when_bytes_have_a_price_then_the_job_goes_home_after_its_rest() -> None:
    priced = replace(RULES, gigabyte_s=1e5)
    rested = Past(moved_at_s={"count": [500.0]})
    tired = Past(moved_at_s={"count": [950.0]})

    verdicts = [decided(ahead(), rules=priced, past=past).verdict for past in (rested, tired)]

    assert verdicts == [Verdict.MOVE, Verdict.RESTING]


LEAVING = replace(
    VIEW,
    sites=(*VIEW.sites, Site("drone", 2, 1000)),
    links=(*VIEW.links, Link("drone", "cloud", 0.05)),
    jobs=(replace(COUNT, name="sum"), COUNT),
)


@pytest.mark.parametrize(
    ("empty_in_s", "leaving"),
    [
        (300, ["count"]),
        (60, ["count", "sum"]),
        (5, ["sum", "count"]),
    ],
)
def test_decision_when_jobs_have_to_leave_then_those_go_that_are_due_before_the_next_look(
    empty_in_s: float, leaving: list[str]
) -> None:
    windows = (Window("train", Cause.LINK, 15, 100), Window("drone", Cause.BATTERY, empty_in_s, 600))
    places = {"count": "train", "sum": "drone"}

    found = decided(ahead(LEAVING, *windows), places)

    assert found.verdict is Verdict.MOVE
    assert [move.job for move in found.moves] == leaving


def test_decision_when_energy_will_cost_more_at_a_site_then_the_job_leaves_it_if_energy_counts() -> None:
    priced = Window("train", Cause.PRICE, from_s=0, to_s=600, factor=20.0)
    sites = tuple(replace(site, idle_w=10.0, active_w=40.0) for site in VIEW.sites)
    near = ahead(replace(VIEW, sites=sites), priced)
    goals = dict.fromkeys(ON_TRAIN, 1.0)

    def moves(kilojoule_s: float) -> tuple[Move, ...]:
        rules = replace(RULES, kilojoule_s=kilojoule_s)
        return decide(Situation(near, ON_TRAIN, goals, rules), Energy(weight=1.0), now_s=1000).moves

    assert moves(0.0) == ()
    assert moves(1.0) == TO_CLOUD


def test_prediction_when_energy_has_another_price_then_has_both_the_joules_and_their_price() -> None:
    sites = tuple(replace(site, idle_w=10.0, active_w=10.0) for site in VIEW.sites)
    priced = Window("train", Cause.PRICE, from_s=0, to_s=300, factor=3.0)

    found = predict(ahead(replace(VIEW, sites=sites), priced), ON_TRAIN, GOALS)

    assert found.joules == pytest.approx(2 * 10 * 600)
    assert found.priced_joules == pytest.approx(10 * 600 + 10 * 300 + 3 * 10 * 300)
