"""Migrations on the command line: their display, and refusals before anything is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from towpath.cli.__main__ import app
from towpath.cli.endings import BAD_INPUT, FAILED
from towpath.cli.journals import journal_rows, print_operation
from towpath.cli.output import shortened
from towpath.contracts.commands import (
    JournalEntry,
    MigrationFigures,
    MigrationForecast,
    OperationKind,
    OperationState,
    OperationView,
    StrategyName,
)
from towpath.reports.costs import cost_rows
from towpath.reports.steps import told

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
FORECAST = MigrationForecast(
    job="counts",
    source="jfk",
    target="cloud",
    strategy=StrategyName.HANDOVER,
    reason="its results depend on the events alone",
    total_s=5.0,
    state_bytes=1_000,
    basis="the last 3 handover migration(s) of counts",
)


def line(step: str, phase: str, at_s: float, **detail: Any) -> JournalEntry:
    return JournalEntry(step=step, phase=phase, at=BEGUN + timedelta(seconds=at_s), detail=detail)


def view(*journal: JournalEntry, **changes: Any) -> OperationView:
    return OperationView(
        **{
            "operation": "5f0c9a7be210",
            "kind": OperationKind.MIGRATE,
            "job": "counts",
            "state": OperationState.COMPLETED,
            "strategy": StrategyName.HANDOVER,
            "source": "jfk",
            "target": "cloud",
            "begun_at": BEGUN,
            "forecast": FORECAST,
            "journal": list(journal),
            **changes,
        }
    )


def run(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), *arguments])


def test_journal_when_steps_were_taken_then_each_is_one_row_with_actor_and_duration() -> None:
    rows = journal_rows(
        view(
            line("ship-checkpoint", "begun", 0.5),
            line("ship-checkpoint", "confirmed", 2.0, state_bytes=1000, digest="ab"),
            line("record-owner", "begun", 2.0),
            line("record-owner", "confirmed", 2.25),
        )
    )
    assert [(row[0], row[1], str(row[2]), row[4]) for row in rows] == [
        ("ship-checkpoint", "source", "confirmed", "1.500 s"),
        ("record-owner", "coordinator", "confirmed", "0.250 s"),
    ]
    assert "(+0.500 s)" in str(rows[0][3])
    assert rows[0][5] == 'state_bytes=1000, digest="ab"'


def test_journal_when_a_step_failed_and_was_undone_then_taking_and_undoing_are_rows_of_their_own() -> None:
    rows = journal_rows(
        view(
            line("assign-source", "begun", 0.0),
            line("assign-source", "confirmed", 0.1),
            line("assign-target", "begun", 0.1),
            line("assign-target", "failed", 0.2, reason="refused", error={"code": "failed"}),
            line("assign-target", "compensating", 0.2),
            line("assign-target", "compensating", 0.3),
            line("assign-target", "compensated", 0.4),
        )
    )
    assert [(row[0], str(row[2]), row[4]) for row in rows] == [
        ("assign-source", "confirmed", "0.100 s"),
        ("assign-target", "failed", "0.100 s"),
        ("assign-target", "compensated", "0.200 s"),
    ]
    assert rows[1][5] == 'reason="refused"'


def test_journal_when_a_step_is_under_way_then_has_no_duration_yet() -> None:
    (row,) = journal_rows(view(line("await-consistency", "begun", 1.0), state=OperationState.RUNNING))
    assert (row[1], str(row[2]), row[4]) == ("monitor", "begun", None)


def test_journal_when_a_step_failed_without_having_begun_then_took_no_time() -> None:
    (row,) = journal_rows(view(line("assign-source", "failed", 1.0, reason="aborted by request")))
    assert (str(row[2]), row[4]) == ("failed", "0.000 s")


@pytest.mark.parametrize("kind", list(OperationKind))
def test_journal_when_of_any_operation_then_names_actors(kind: OperationKind) -> None:
    steps = {"remove": "stop-job", "migrate": "set-epoch", "fail-over": "take-over"}
    step = steps.get(kind, "start-job")
    (row,) = journal_rows(view(line(step, "begun", 0.0), kind=kind))
    assert row[1] in ("source", "target", "output")


def test_costs_when_measured_then_stand_beside_what_was_expected() -> None:
    figures = MigrationFigures(
        total_s=4.2, downtime_s=0.0, state_bytes=1_200, round_bytes=[1_000, 200], compared=17, offset=None
    )
    assert cost_rows(view(figures=figures)) == [
        ("total", "5.00 s", "4.20 s"),
        ("downtime", "none", "0.00 s"),
        ("state", "1,000 bytes", "1,200 bytes"),
        ("by rounds", None, "1,000 + 200"),
        ("results compared", None, "17, all equal"),
    ]


def test_costs_when_no_input_came_meanwhile_then_downtime_is_not_a_number() -> None:
    figures = MigrationFigures(total_s=4.2, downtime_s=None, offset=12)
    rows = {name: measured for name, _, measured in cost_rows(view(figures=figures))}
    assert rows["downtime"] == "no input came meanwhile"
    assert rows["source ahead by"] == "12 events"


def test_costs_when_a_migration_runs_or_the_operation_is_another_then_nothing_is_measured() -> None:
    assert {measured for _, _, measured in cost_rows(view())} == {None}
    assert cost_rows(view(forecast=None, kind=OperationKind.DEPLOY)) == []


def test_operation_when_printed_then_tells_route_reason_and_basis(capsys: pytest.CaptureFixture[str]) -> None:
    print_operation(view(state=OperationState.ROLLED_BACK, note="resume: aborted by request"))
    printed = capsys.readouterr().out
    for part in ("from jfk to cloud: rolled back", "aborted by request", FORECAST.reason, FORECAST.basis):
        assert part in printed


def test_detail_when_long_then_fits_a_line_and_leaves_out_what_is_empty() -> None:
    detail = {"serials": {f"jfk/topic-{n}": n for n in range(50)}, "amended": [], "position": None}
    text = shortened(told(detail))
    assert len(text) == 90
    assert text.endswith("…")
    assert shortened(told({"amended": [], "position": None, "compared": 0})) == "compared=0"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["migrate", "counts", "--to", "cloud", "--check", "identity"], "results"),
        (["migrate", "counts", "--to", "cloud", "--factor", "-1"], "--factor"),
        (["migrate", "counts", "--to", "cloud", "--at-most", "0"], "--at-most"),
        (["migrate", "counts", "--to", "cloud", "--strategy", "general", "--check", "serials"], "parallel"),
        (["migrate", "counts", "--to", "cloud", "--strategy", "handover", "--factor", "3"], "parallel"),
        (
            ["migrate", "counts", "--to", "cloud", "--strategy", "parallel", "--factor", "0"],
            "--check results",
        ),
        (["migrate", "counts", "--to", "cloud", "--factor", "3", "--check", "serials"], "--check results"),
        (["migration"], "ID"),
        (["migration", "m1", "cancel"], "abort"),
        (["migration", "no such id", "abort"], "operation"),
    ],
)
def test_command_line_when_a_migration_cannot_be_meant_so_then_one_line_says_why(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = run(tmp_path / "home", *arguments)
    assert result.exit_code == BAD_INPUT
    assert result.stdout == ""
    assert said in result.stderr
    assert result.stderr.count("\n") == 1, result.stderr


@pytest.mark.parametrize("strategy", list(StrategyName))
def test_command_line_when_any_strategy_is_named_then_only_a_mesh_is_missing(
    tmp_path: Path, strategy: StrategyName
) -> None:
    for more in (["--dry-run"], []):
        result = run(tmp_path / "home", "migrate", "counts", "--to", "cloud", "--strategy", strategy, *more)
        assert result.exit_code == FAILED
        assert "no mesh runs here" in result.stderr
