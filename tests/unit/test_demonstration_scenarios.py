"""Demonstrations as scenarios, and their reports."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.commands import OperationState, StrategyName
from towpath.contracts.scenario import Scenario
from towpath.lab.demonstration.faults.handover import HandoverOptions, slowed_scenario
from towpath.lab.demonstration.report import DemonstrationReport, EvacuationReport, Silences
from towpath.lab.demonstration.scenario import (
    LEAVE_AT_S,
    DemonstrationOptions,
    leaving_scenario,
    moving_scenario,
)
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import Judgement, MoveReport, SentLoad
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.scenarios.course import received
from towpath.lab.scenarios.playing import Played
from towpath.lab.scenarios.reading import parse, plain
from towpath.lab.scenarios.report import RunReport

OPTIONS = DemonstrationOptions(per_airport=3_000, rate=200.0)
TOPOLOGY = (
    "name: departures\nnodes: [{name: jfk, cores: 1}, {name: lga, cores: 1}, {name: cloud, cores: 1}]\n"
)


@pytest.mark.parametrize(
    "scenario",
    [
        moving_scenario(OPTIONS),
        moving_scenario(DemonstrationOptions(per_airport=500, strategy=StrategyName.PARALLEL)),
        slowed_scenario(HandoverOptions(per_airport=2_000)),
    ],
    ids=lambda scenario: f"{scenario.name} with {len(scenario.timeline)} steps",
)
def test_scenario_when_described_by_a_function_then_is_one_that_a_file_could_hold(scenario: Scenario) -> None:
    check_scenario(scenario)
    assert plain(parse(plain(scenario))) == plain(scenario)


def test_evacuation_when_described_then_the_site_is_lost_once_the_job_has_left(tmp_path: Any) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text(TOPOLOGY)
    scenario = leaving_scenario("jfk", "lga", "cloud", str(topology))
    check_scenario(scenario)
    [move, loss] = scenario.timeline
    assert (move.at, loss.on and loss.on.where["state"]) == (LEAVE_AT_S, "completed")
    assert "lga" not in [probe.model_dump()["site"] for probe in scenario.steady_state]


def test_moves_when_a_share_of_the_load_was_sent_then_malformed_records_count() -> None:
    assert [step.at for step in moving_scenario(OPTIONS).timeline] == [8.291, 12.06]


def test_sites_when_slowed_then_one_after_another_before_the_move_and_until_after_it() -> None:
    options = HandoverOptions(step_s=5.0)
    begin = options.demonstration.moment(options.move_at)
    _measure, first, second, move, *unload = slowed_scenario(options).timeline
    assert [step.at for step in (first, second, move)] == [begin, begin + 5.0, begin + 10.0]
    assert [(step.unload, step.on and step.on.after_s) for step in unload] == [
        (["slow-jfk"], 5.0),
        (["slow-cloud"], 10.0),
    ]


def move(**more: Any) -> MoveReport:
    return MoveReport(job="leaving", strategy="handover", state=OperationState.COMPLETED, **more)


def run_report(**more: Any) -> RunReport:
    loads = [
        SentLoad(site=site, topic="site/x", sent=100, acknowledged=100, redelivered=0, seconds=seconds)
        for site, seconds in (("jfk", 10.0), ("lga", 20.0))
    ]
    verdicts = {
        "clean": Judgement(expected=90, results=90, rejected=10),
        "hourly": Judgement(expected=20, results=19, lost=1, examples={"lost": ["a", "b"]}),
        "all": Judgement(expected=5, results=4, lost=1, examples={"lost": ["c"], "late": ["d"]}),
    }
    return RunReport(scenario="s", loads=loads, verdicts=verdicts, **more)


def came(*times: float) -> list[ReceivedResult]:
    return [ReceivedResult(at, 1.0, "jfk") for at in times]


def test_silences_when_a_job_moves_then_pauses_that_the_move_had_a_part_in_are_told_apart() -> None:
    results = came(0.0, 0.1, 3.0, 6.0, 10.0, 15.0, 18.0, 22.0)
    move = MoveReport(job="hourly", strategy="handover", begun_at=9.0, ended_at=14.0)
    found = Silences.of(results, [move])
    assert found == Silences(usual_s=3.0, moving_s=5.0, otherwise_s=4.0)
    assert str(found) == (
        "longest time without a result: 5.0 s during moves, 4.0 s otherwise (usually 3.0 s)"
    )
    assert Silences.of(came(0.0, 0.1), [move]) is None


def test_report_when_several_jobs_were_judged_then_tells_their_sums() -> None:
    found = DemonstrationReport.of(run_report(), [])
    assert (found.events, found.events_per_s, found.rejected) == (200, 10.0, 10)
    assert (found.expected_results, found.results, found.lost) == (115, 113, 2)
    assert found.examples == {"lost": ["a", "b"], "late": ["d"]}
    assert found.latency_p50_s is None
    assert not found.clean


def test_evacuation_when_the_site_was_lost_then_results_count_from_then_on() -> None:
    came = [[100.0, 1.0, "lga"], [104.0, 1.5, "cloud"], [109.0, 2.0, "cloud"]]
    lines = [
        {"kind": "results", "job": "leaving", "came": came},
        {"kind": "step", "at": 90.0, "action": "migrate", "what": "leaving"},
        {"kind": "step", "at": 103.0, "action": "node", "what": "fail lga"},
    ]
    found = EvacuationReport.of(Played(run_report(migrations=[move(ended_at=101.5)]), lines))
    assert (found.lost_after_s, found.results_afterwards) == (1.5, 2)
    assert [each.site for each in received(lines, "leaving")] == ["lga", "cloud", "cloud"]


def test_evacuation_when_the_site_was_not_lost_then_nothing_came_afterwards() -> None:
    lines = [{"kind": "step", "at": 103.0, "action": "node", "what": "fail lga", "error": "no daemon"}]
    found = EvacuationReport.of(Played(run_report(problems=["the step failed"]), lines))
    assert (found.move, found.lost_after_s, found.results_afterwards) == (None, None, 0)
    assert not found.clean
