"""The page on a migration: complete, self-contained, and honest about what is missing."""

from __future__ import annotations

import pytest
from report_trial import JOB, check_self_contained, facts, journal, measured, view

from towpath.contracts.commands import OperationState
from towpath.contracts.traces import Trace
from towpath.reports.facts import ReadSeries
from towpath.reports.migration import migration_page
from towpath.telemetry.trace_tree import in_tree

SECTIONS = ["What it cost", "Step by step", "What the job did meanwhile", "Trace", "Journal"]


def test_page_when_everything_is_known_then_has_all_sections_and_pictures() -> None:
    page = check_self_contained(migration_page(facts()))
    assert page.titles == ["hourly-jfk moves from jfk to cloud", *SECTIONS]
    assert len(page.pictures) == 3
    assert "without downtime; 245,528 bytes of state moved" in page.text
    assert "It took 12.00 s, where 8.00 s were expected: 1.5 times as long" in page.text
    assert "300 events/s on average at jfk before" in page.text
    assert "330 events/s on average at cloud afterwards" in page.text
    assert "3 spans of 3 services (cli, coordinator, engine)" in page.text
    assert "it was halted" in page.text
    assert all(f"{entry.step}" in page.text for entry in journal())


def test_page_when_nothing_was_measured_then_says_what_is_missing() -> None:
    page = check_self_contained(migration_page(facts(measured=ReadSeries(), trace=None, untraced="too old")))
    assert page.titles[1:] == SECTIONS
    assert len(page.pictures) == 1
    assert f"No site measured this of {JOB} in that time: throughput" in page.text
    assert "There is no trace: too old." in page.text


def test_page_when_a_site_is_silent_then_names_it_and_shows_the_others() -> None:
    silent = measured(unreached={"cloud": "no answer within 3 s"})
    page = check_self_contained(migration_page(facts(measured=silent)))
    assert "did not answer: cloud (no answer within 3 s)" in page.text
    assert len(page.pictures) == 3


def test_page_when_the_collector_is_silent_then_says_so_once() -> None:
    page = check_self_contained(migration_page(facts(measured=ReadSeries(failure="no one answers"))))
    assert "There are no measurements: no one answers." in page.text
    assert "No site measured" not in page.text


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (OperationState.RUNNING, "is under way"),
        (OperationState.ROLLED_BACK, "was rolled back: the job stays where it was (no room left)"),
        (OperationState.NEEDS_OPERATOR, "needs an operator"),
    ],
)
def test_page_when_the_migration_did_not_complete_then_says_how_it_stands(
    state: OperationState, words: str
) -> None:
    half = journal()[:5]
    shown = view(state=state, figures=None, ended_at=None, note="no room left", journal=half)
    page = check_self_contained(migration_page(facts(view=shown)))
    assert words in page.text
    assert "under way" in page.text


def test_page_when_nothing_was_begun_then_still_is_a_page() -> None:
    empty = view(journal=[], forecast=None, figures=None)
    page = check_self_contained(migration_page(facts(view=empty, trace=Trace(trace="0" * 32, spans=[]))))
    assert "The journal is empty" in page.text
    assert "The trace has no spans." in page.text


def test_page_when_a_note_holds_markup_then_is_text() -> None:
    text = migration_page(facts(view=view(note="<script>alert(1)</script>")))
    assert "<script>" not in text
    assert "<script>alert(1)</script>" in check_self_contained(text).text


def test_spans_when_a_parent_is_missing_then_begin_a_tree_of_their_own() -> None:
    spans = facts().trace
    assert spans is not None
    assert [(depth, span.service) for depth, span in in_tree(spans.spans)] == [
        (0, "cli"),
        (1, "coordinator"),
        (2, "engine"),
    ]
    orphans = [span for span in spans.spans if span.service != "cli"]
    assert [depth for depth, _ in in_tree([*orphans, *orphans])] == [0, 1]
