"""The page on a run of a scenario, made from its journal alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from report_trial import check_self_contained
from test_scenario_reports import write_run
from typer.testing import CliRunner

from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT
from towpath.lab.harness.journal import FILE
from towpath.lab.scenarios.report_page import run_page


def test_page_when_the_run_ended_then_says_what_was_injected_and_found(tmp_path: Path) -> None:
    write_run(tmp_path)
    page = check_self_contained(run_page(tmp_path))
    assert page.titles == [
        "Scenario a-scenario, seed 3",
        "Outcome",
        "The run over time",
        "What was injected, and when",
        "Steady state",
        "Migrations",
        "The checker's verdict",
    ]
    assert len(page.pictures) == 1
    for part in (
        "not as expected; the checker found 1 lost",
        "1 results lost",
        "timeline.0.at = 1.2",
        "towpath scenario run a-scenario --seed 3",
        "results-lost",
        "counted: jfk → cloud (handover), rolled_back",
        "90 results were expected; found amiss: 1 lost.",
        "at most 500 events",
        "lag counted: from 700 to 700.",
    ):
        assert part in page.text


def test_page_when_the_run_was_killed_then_tells_what_was_known(tmp_path: Path) -> None:
    write_run(tmp_path, ended=False)
    page = check_self_contained(run_page(tmp_path))
    assert "The run did not end: its journal stops." in page.text
    assert len(page.pictures) == 1


def test_page_when_the_journal_has_no_line_then_still_is_a_page(tmp_path: Path) -> None:
    (tmp_path / FILE).touch()
    assert "did not end" in check_self_contained(run_page(tmp_path)).text


def test_report_when_given_a_directory_of_a_run_then_is_written_there(tmp_path: Path) -> None:
    write_run(tmp_path)
    ended = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert (ended.exit_code, ended.stdout) == (0, "")
    check_self_contained((tmp_path / "report.html").read_text())


def test_report_when_given_a_scenarios_name_then_finds_what_its_run_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "scenario-lossy-link")
    ended = CliRunner().invoke(app, ["report", "lossy-link", "--output", "deep/er/page.html"])
    assert ended.exit_code == 0
    check_self_contained((tmp_path / "deep" / "er" / "page.html").read_text())


@pytest.mark.parametrize("about", ["no/such/directory", "a b", "../x", ""])
def test_report_when_nothing_can_be_called_so_then_is_refused_on_one_line(tmp_path: Path, about: str) -> None:
    ended = CliRunner().invoke(app, ["--home", str(tmp_path), "report", about])
    assert (ended.exit_code, ended.stdout) == (BAD_INPUT, "")
    assert ended.stderr.count("\n") == 1
    assert "about" in ended.stderr


def test_report_when_it_cannot_be_written_then_names_the_file(tmp_path: Path) -> None:
    write_run(tmp_path)
    ended = CliRunner().invoke(app, ["report", str(tmp_path), "--output", str(tmp_path / FILE / "x.html")])
    assert ended.exit_code == 1
    assert "x.html" in ended.stderr
