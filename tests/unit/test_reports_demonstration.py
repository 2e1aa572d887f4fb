"""The page that `make demo` leaves."""

from __future__ import annotations

from typing import Any

from report_trial import BEGUN, TOOK_S, check_self_contained, facts

from towpath.lab.demonstration.report import DemonstrationReport
from towpath.lab.demonstration.report_page import demonstration_page
from towpath.lab.demonstration.run import Outcome
from towpath.lab.harness.observer import ReceivedResult
from towpath.lab.harness.report import MoveReport
from towpath.lab.scenarios.playing import Played
from towpath.lab.scenarios.report import RunReport
from towpath.reports.facts import MigrationFacts

FIRST = BEGUN.timestamp() - 30
MOVING = [ReceivedResult(FIRST + n / 10, 2.0, "jfk" if n < 400 else "cloud") for n in range(1_000)]
PASSING = [ReceivedResult(FIRST + n / 20, 1.0, "jfk") for n in range(2_000)]


def report(**changes: Any) -> DemonstrationReport:
    move = MoveReport(
        job="hourly-jfk",
        source="jfk",
        target="cloud",
        strategy="handover",
        total_s=TOOK_S,
        downtime_s=0.0,
        state_bytes=245_528,
        begun_at=BEGUN.timestamp(),
        ended_at=BEGUN.timestamp() + TOOK_S,
    )
    content: dict[str, Any] = {
        "events": 66_333,
        "events_per_s": 899.9,
        "expected_results": 102_424,
        "results": 102_424,
        "lost": 0,
        "duplicated": 0,
        "wrong": 0,
        "out_of_order": 0,
        "redelivered": 0,
        "rejected": 1_184,
        "latency_p50_s": 4.813,
        "latency_p99_s": 8.506,
        "seconds": 142.8,
        "migrations": [move, move],
    }
    return DemonstrationReport.model_validate(content | changes)


def outcome(found: DemonstrationReport, passing: list[ReceivedResult], *moves: MigrationFacts) -> Outcome:
    played = Played(RunReport(scenario="demonstration"), [])
    return Outcome(found, played, "hourly-jfk", MOVING, passing, [*moves])


def test_page_when_the_run_was_clean_then_holds_verdict_picture_and_both_migrations() -> None:
    text = demonstration_page(outcome(report(), PASSING, facts(), facts()))
    page = check_self_contained(text)
    assert page.titles[:3] == [
        "hourly-jfk moves 2 times under load",
        "The checker's verdict",
        "The run over time",
    ]
    assert page.titles.count("Journal") == 2
    assert len(page.pictures) == 7
    assert "102,424 expected results 102,424 came: 0 lost" in page.text
    assert "Every result arrived exactly once, and right." in page.text
    assert "From jfk to cloud: 12.0 s, downtime 0.00 s, 245,528 bytes of state." in page.text
    assert len(text) < 1_000_000


def test_page_when_results_are_missing_then_says_which() -> None:
    lost = report(results=102_423, lost=1, examples={"lost": ["window 7"]}, latency_p50_s=None)
    page = check_self_contained(demonstration_page(outcome(lost, [])))
    assert "Not every result arrived" in page.text
    assert "lost: window 7" in page.text
    assert page.pictures == []
