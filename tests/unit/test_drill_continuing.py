"""A drill that was stopped goes on with the cells that its report lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.site import Durability
from towpath.lab.drill.continuing import begun, earlier, joined, left
from towpath.lab.drill.matrix import USUAL, Conditions, named
from towpath.lab.scenarios.campaign_report import CampaignReport
from towpath.lab.scenarios.report import RunReport

CELLS = named([f"update/{step}/kill/redis" for step in ("check-spec", "stop-job", "start-job")])


SAFE = Conditions(durability=Durability.POWER_SAFE)


def test_drill_when_it_was_stopped_then_goes_on_with_the_cells_that_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    played = [RunReport(scenario=CELLS[1].scenario, problems=["lost"]), RunReport(scenario="another-drill")]
    path.write_text(CampaignReport(planned=3, seconds=60.0, runs=played).model_dump_json())

    before = earlier(path, USUAL)
    report = begun(CELLS, 7, USUAL, before)

    assert [run.scenario for run in report.runs] == [CELLS[1].scenario]
    assert (report.planned, report.seconds, report.passed) == (3, 60.0, False)
    assert left(CELLS, report) == [CELLS[0], CELLS[2]]

    kept = joined(report, before)
    assert [run.scenario for run in kept.runs] == ["another-drill", CELLS[1].scenario]
    assert kept.planned == 4


def test_drill_when_it_was_never_begun_then_all_cells_are_left(tmp_path: Path) -> None:
    before = earlier(tmp_path / "report.json", USUAL)
    assert left(CELLS, begun(CELLS, 7, USUAL, before)) == CELLS


def test_drill_when_it_was_begun_under_another_condition_then_does_not_go_on(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(begun(CELLS, 7, SAFE, CampaignReport()).model_dump_json())
    assert earlier(path, SAFE).conditions["durability"] == "power-safe"
    with pytest.raises(TowpathError, match="another condition") as caught:
        earlier(path, USUAL)
    assert caught.value.detail.field == "durability"


def test_drill_when_its_report_is_something_else_then_the_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("[]")
    with pytest.raises(TowpathError, match="no report of a drill") as caught:
        earlier(path, USUAL)
    assert caught.value.detail.value == str(path)
