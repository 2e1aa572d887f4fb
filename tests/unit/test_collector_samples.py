"""What the collector makes samples of: ended migrations, and what rules measure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from towpath.collector.migrations import samples_of_end, samples_of_steps
from towpath.collector.rule_metrics import sample_of
from towpath.contracts.commands import JournalEntry, OperationKind, OperationState, OperationView
from towpath.contracts.events import OperationEnded
from towpath.contracts.faults import Metric

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def steps(*lines: tuple[str, str, float]) -> list[tuple[str, float, float]]:
    """Entity, moment after the begin, and value of what a journal of such lines is turned into."""
    view = OperationView(
        operation="m1",
        kind=OperationKind.MIGRATE,
        job="late",
        state=OperationState.COMPLETED,
        begun_at=BEGIN,
        journal=[JournalEntry(step=step, phase=phase, at=at(seconds)) for step, phase, seconds in lines],
    )
    return [(s.entity, s.at - BEGIN.timestamp(), s.value) for s in samples_of_steps(view)]


def ended(**figures: Any) -> dict[str, float]:
    body = {**OperationEnded.example, "operation": "m1", "figures": figures or None}
    return {sample.metric: sample.value for sample in samples_of_end(OperationEnded.model_validate(body))}


def test_migration_when_ended_with_figures_then_each_is_a_sample() -> None:
    assert ended(total_s=2.5, downtime_s=0.5, state_bytes=7) == {
        "migration.duration": 2.5,
        "migration.downtime": 0.5,
        "migration.state": 7,
    }


def test_migration_when_its_downtime_is_not_known_then_has_no_sample_of_it() -> None:
    assert "migration.downtime" not in ended(total_s=2.5)


def test_migration_when_it_has_no_figures_then_has_no_samples() -> None:
    assert ended() == {}


def test_steps_when_they_end_then_have_a_sample_then() -> None:
    found = steps(
        ("pause", "begun", 1), ("pause", "confirmed", 3), ("launch", "begun", 3), ("launch", "failed", 4)
    )
    assert found == [("migration:m1/pause", 3, 2), ("migration:m1/launch", 4, 1)]


def test_step_when_a_successor_of_the_coordinator_sends_it_again_then_counts_from_the_first_time() -> None:
    assert steps(("pause", "begun", 1), ("pause", "begun", 5), ("pause", "confirmed", 6)) == [
        ("migration:m1/pause", 6, 5)
    ]


def test_step_when_it_is_done_again_then_has_two_samples() -> None:
    lines = [
        ("copy", "begun", 1.0),
        ("copy", "confirmed", 2.0),
        ("copy", "begun", 5.0),
        ("copy", "confirmed", 8.0),
    ]
    assert [value for _, _, value in steps(*lines)] == [1, 3]


def test_step_when_it_is_undone_then_that_is_no_step() -> None:
    assert steps(("pause", "compensating", 1), ("pause", "compensated", 2)) == []


def test_metric_of_a_rule_when_kept_then_says_where_and_of_what() -> None:
    metric = Metric(site="jfk", entity="jfk-engine", name="wait_s", value=0.5, at=BEGIN)
    sample = sample_of(metric)
    assert (sample.entity, sample.metric, sample.at, sample.value) == (
        "rule:jfk/jfk-engine",
        "rule.wait_s",
        BEGIN.timestamp(),
        0.5,
    )
