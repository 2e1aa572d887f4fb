"""Journals, reports, pictures, campaigns: made from what runs left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from test_scenario_reading import document

from towpath.contracts.errors import TowpathError
from towpath.lab.harness import stage as staging
from towpath.lab.harness.journal import FILE, Entry, Journal, read_journal
from towpath.lab.scenarios import campaign as campaigns
from towpath.lab.scenarios.campaign import Campaign, PlannedRun, chosen_scenarios, plan, together
from towpath.lab.scenarios.campaign_report import (
    CampaignReport,
    by_event,
    by_fault,
    by_scenario,
    coverage,
    write_campaign,
)
from towpath.lab.scenarios.course import course
from towpath.lab.scenarios.reading import LIBRARY, parse, plain
from towpath.lab.scenarios.report import RunReport
from towpath.lab.scenarios.report_page import recorded_report, write_report


def report(scenario: str = "a-scenario", seed: int = 3, **changes: Any) -> RunReport:
    content: dict[str, Any] = {
        "scenario": scenario,
        "source": scenario,
        "seed": seed,
        "recovered_s": 2.0,
        "verdicts": {"counted": {"expected": 90, "results": 89, "lost": 1}},
        "rules": [{"rule": "r", "event": "point sink.publish", "faults": ["drop"], "looked": 9, "acted": 1}],
    }
    return RunReport.model_validate(content | changes)


def write_run(directory: Path, *, ended: bool = True) -> None:
    with Journal(directory / FILE) as journal:
        journal.add(Entry.BEGUN, scenario=plain(parse(document())), seed=3, chosen={})
        journal.add(Entry.PHASE, phase="before")
        journal.add(Entry.SAMPLE, values={"lag counted": None}, outside=["lag counted"])
        journal.add(Entry.PHASE, phase="during")
        journal.add(Entry.LOADED, rules=["results-lost"])
        journal.add(Entry.DEVIATED, probes=["lag counted"])
        journal.add(Entry.SAMPLE, values={"lag counted": 700}, outside=["lag counted"])
        begun = {"kind": "migrate", "job": "counted", "source": "jfk", "target": "cloud"}
        journal.add(Entry.EVENT, subject="operation.m1.begun", body=begun | {"strategy": "handover"})
        journal.add(Entry.EVENT, subject="operation.m1.ended", body={"state": "rolled_back"})
        journal.add(Entry.UNLOADED, rules=["results-lost"], why="unloaded")
        journal.add(Entry.STEADY, after_s=1.5)
        if ended:
            content = report(chosen={"timeline.0.at": 1.2}, problems=["1 results lost"])
            journal.add(Entry.ENDED, report=content.model_dump(mode="json"))


def test_report_when_written_then_says_outcome_seed_timeline_and_verdict(tmp_path: Path) -> None:
    write_run(tmp_path)
    text = write_report(tmp_path).read_text()
    for part in (
        "1 results lost",
        "`timeline.0.at = 1.2`",
        "towpath scenario run a-scenario --seed 3",
        "rule loaded | results-lost",
        "counted: jfk → cloud (handover), rolled_back",
        "| lost | 1 |",
        "at most 500 events",
    ):
        assert part in text
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


def test_report_when_the_run_was_killed_in_a_line_then_tells_what_was_known(tmp_path: Path) -> None:
    write_run(tmp_path, ended=False)
    with (tmp_path / FILE).open("a") as journal:
        journal.write('{"at": 1, "t": 3, "ki')
    assert "did not end" in write_report(tmp_path).read_text()
    assert len(read_journal(tmp_path)) == 11


def test_report_when_there_is_no_journal_then_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TowpathError) as refused:
        write_report(tmp_path)
    assert refused.value.detail.field == "directory"


def test_course_when_a_rule_was_never_unloaded_then_lasts_to_the_end(tmp_path: Path) -> None:
    journal = Journal(None)
    journal.add(Entry.LOADED, rules=["r"])
    journal.add(Entry.SAMPLE, values={}, outside=[])
    [mark] = course(journal.lines).rules
    assert mark.end == journal.lines[-1]["t"]


def test_plan_when_the_seed_is_the_same_then_is_the_same_and_spreads_evenly() -> None:
    names = LIBRARY.names()
    planned = plan(names, 60, 1)
    assert planned == plan(names, 60, 1) != plan(names, 60, 2)
    assert len(planned) == 60
    counts = [sum(run.scenario == name for run in planned) for name in names]
    assert max(counts) - min(counts) <= 1
    assert all(run.seed > 0 for run in planned)


def test_campaign_when_scenarios_are_chosen_then_one_mesh_has_what_all_need() -> None:
    by_processes = chosen_scenarios(None)
    emulated = [name for name in LIBRARY.names() if name not in by_processes]
    assert emulated == ["city-traffic", "factory", "railway"]
    assert chosen_scenarios("lossy-link, agent-paused") == ["lossy-link", "agent-paused"]
    needs = together(["lossy-link", "agent-paused"])
    assert (needs.sites, needs.emulate_links) == (["jfk", "cloud"], True)
    for name in ("no-such", "railway"):
        with pytest.raises(TowpathError):
            together([name])


def test_campaign_when_aggregated_then_counts_runs_findings_and_times() -> None:
    runs = [report(), report(seed=4, recovered_s=6.0), report("other", recovered_s=None, problems=["stuck"])]
    ours, other = by_scenario(runs)
    assert (ours.name, ours.runs, ours.passed, ours.findings["lost"]) == ("a-scenario", 2, 2, 2)
    assert (ours.recovery_median_s, ours.recovery_max_s) == (4.0, 6.0)
    assert (other.passed, other.never_recovered, other.recovery_max_s) == (0, 1, None)
    assert [row.name for row in by_event(runs)] == ["point sink.publish"]


def test_coverage_when_a_rule_never_acted_then_its_fault_is_not_covered() -> None:
    idle = report(rules=[{"rule": "k", "event": "process jfk-engine", "faults": ["kill"], "looked": 3}])
    assert [row.name for row in by_fault([report(), idle])] == ["drop"]
    assert coverage([report(), idle], ["drop", "kill"]) == (["drop"], ["kill"])


def test_campaign_when_written_then_failures_say_how_to_repeat_them(tmp_path: Path) -> None:
    failed = report("other", seed=77, problems=["steady state did not come back"], recovered_s=None)
    whole = CampaignReport(planned=2, seconds=70, runs=[report(), failed])
    write_campaign(tmp_path, whole, picture=True)
    text = (tmp_path / "campaign.md").read_text()
    assert "towpath scenario run other --seed 77" in text
    assert "1 of 2 runs went as expected" in text
    assert (tmp_path / "campaign.png").read_bytes().startswith(b"\x89PNG")
    assert CampaignReport.model_validate_json((tmp_path / "campaign.json").read_text()) == whole
    assert not whole.passed


def test_campaign_when_runs_are_missing_then_has_not_passed() -> None:
    assert CampaignReport(planned=1, runs=[report()]).passed
    assert not CampaignReport(planned=2, runs=[report()]).passed
    assert PlannedRun("lossy-link", 3).name == "lossy-link-3"


def test_report_when_its_scenario_came_from_a_file_then_says_how_to_run_that_again(tmp_path: Path) -> None:
    failed = report("mine", seed=7, source="my scenarios/mine.yaml", problems=["stuck"])
    write_campaign(tmp_path, CampaignReport(planned=1, runs=[failed]), picture=False)
    again = "`towpath scenario run 'my scenarios/mine.yaml' --seed 7`"
    assert again in (tmp_path / "campaign.md").read_text()
    with Journal(tmp_path / FILE) as journal:
        journal.add(Entry.BEGUN, scenario=plain(parse(document())), seed=7, chosen={})
        journal.add(Entry.ENDED, report=failed.model_dump(mode="json"))
    assert again in write_report(tmp_path).read_text()


def test_run_of_a_file_when_planned_then_its_directory_is_inside_that_of_the_campaign() -> None:
    for file in ("/somewhere/mine.yaml", "../mine.yaml", "mine.yaml"):
        assert PlannedRun(file, 3).name == "mine-3"


async def test_campaign_when_a_seed_chooses_what_is_no_scenario_then_the_other_runs_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "varied.yaml"
    wrong = {"path": "steady_state.0.at_most_events", "one_of": [-1]}
    file.write_text(json.dumps(document(vary=[wrong])))

    class Settled:
        async def until_settled(self, job: str | None, within_s: float) -> None:
            return

    @asynccontextmanager
    async def nothing_up(*given: Any, **options: Any) -> AsyncIterator[Settled]:
        yield Settled()

    monkeypatch.setattr(staging, "stage", nothing_up)
    planned = [PlannedRun(str(file), 3), PlannedRun(str(file), 4)]
    runs = [run async for run in Campaign(planned, tmp_path / "out").run()]
    assert [(run.scenario, run.seed, run.passed, run.broken) for run in runs] == [
        ("varied", 3, False, False),
        ("varied", 4, False, False),
    ]
    assert "at_most_events" in runs[0].problems[0]


async def test_campaign_when_the_laboratory_fails_in_a_run_then_has_its_report_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(document()))

    @asynccontextmanager
    async def nothing_up(*given: Any, **options: Any) -> AsyncIterator[None]:
        yield

    async def failing(*given: Any) -> RunReport:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(staging, "stage", nothing_up)
    monkeypatch.setattr(campaigns, "play_on", failing)
    [run] = [run async for run in Campaign([PlannedRun(str(file), 3)], tmp_path / "out").run()]
    assert (run.broken, run.problems) == (True, ["the laboratory failed: RuntimeError('a fault of ours')"])


def test_timeline_when_its_faults_last_long_then_a_run_may_last_longer() -> None:
    strike = {"target": "process", "name": "jfk-engine", "fault": "pause", "for_s": 600}
    trigger = {"event": "operation.*.step", "within_s": 240, "after_s": 1}
    scenario = parse(
        document(timeline=[{"at": 2, "strike": strike}, {"on": trigger, "strike": strike}]), "mine"
    )
    assert campaigns.timeline_s(scenario) == 2 + 241 + 1200


def test_recorded_report_when_the_run_ended_then_is_what_it_said_and_else_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "ended")
    write_run(tmp_path / "killed", ended=False)
    found = recorded_report(tmp_path / "ended")
    assert found is not None
    assert found.problems == ["1 results lost"]
    assert recorded_report(tmp_path / "killed") is None


def test_journal_when_a_text_has_a_line_separator_then_is_read_to_its_end(tmp_path: Path) -> None:
    with Journal(tmp_path / FILE) as journal:
        journal.add(Entry.STEP, error="one\u2028two\u0085three")
        journal.add(Entry.STEP, error="later")
    assert [line["error"] for line in read_journal(tmp_path)] == ["one\u2028two\u0085three", "later"]


def test_journal_when_its_writer_was_killed_within_a_character_then_has_the_lines_before(
    tmp_path: Path,
) -> None:
    with Journal(tmp_path / FILE) as journal:
        journal.add(Entry.STEP, error="one")
    with (tmp_path / FILE).open("ab") as file:
        file.write('{"error": "é'.encode()[:-1])
    assert [line["error"] for line in read_journal(tmp_path)] == ["one"]
