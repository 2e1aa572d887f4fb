"""The collector makes samples of ended migrations, and of metrics that rules emit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from nats.aio.msg import Msg

from towpath.bus import Bus
from towpath.collector.migrations import MigrationSamples, samples_of_end, samples_of_steps
from towpath.collector.own_samples import OwnSamples
from towpath.collector.rule_metrics import LATE_S, MOST_SERIES, RuleMetrics, SampleQueue, sample_of
from towpath.contracts.commands import JournalEntry, OperationKind, OperationState, OperationView
from towpath.contracts.events import OperationEnded, SecurityRefused
from towpath.contracts.metrics import Metric, Sample

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def steps(*lines: tuple[str, str, float]) -> list[tuple[str, float, float]]:
    """Return entity, seconds after the begin, and value of the samples of a journal with these lines."""
    view = shown([JournalEntry(step=step, phase=phase, at=at(seconds)) for step, phase, seconds in lines])
    return [(s.entity, s.at - BEGIN.timestamp(), s.value) for s in samples_of_steps(view)]


def shown(journal: list[JournalEntry], **more: Any) -> OperationView:
    """A migration as the coordinator shows it."""
    known: dict[str, Any] = dict(
        operation="m1", kind=OperationKind.MIGRATE, job="late", state=OperationState.COMPLETED, begun_at=BEGIN
    )
    return OperationView(**{**known, **more}, journal=journal)


def ended(view: OperationView | None = None, *, state: str = "completed", **figures: Any) -> dict[str, float]:
    body = {**OperationEnded.example, "operation": "m1", "state": state, "figures": figures or None}
    samples = samples_of_end(OperationEnded.model_validate(body), view)
    return {sample.metric: sample.value for sample in samples}


def test_migration_when_ended_with_figures_then_each_is_a_sample() -> None:
    assert ended(total_s=2.5, downtime_s=0.5, state_bytes=7) == {
        "migration.completed": 1,
        "migration.duration": 2.5,
        "migration.downtime": 0.5,
        "migration.state": 7,
    }


def test_migration_when_its_downtime_is_not_known_then_has_no_sample_of_it() -> None:
    assert "migration.downtime" not in ended(total_s=2.5)


@pytest.mark.parametrize("state", ["rolled_back", "needs_operator"])
def test_migration_when_it_does_not_complete_then_its_journal_says_how_long_it_took_and_what_crossed(
    state: str,
) -> None:
    journal = [
        JournalEntry(step="ship-checkpoint", phase="confirmed", at=at(4), detail={"state_bytes": 123}),
        JournalEntry(step="launch-retrieve", phase="failed", at=at(6), detail={"error": "no room"}),
    ]
    assert ended(shown(journal, state=state, ended_at=at(7)), state=state) == {
        "migration.completed": 0,
        "migration.duration": 7,
        "migration.state": 123,
    }


def test_migration_when_it_fails_before_state_crosses_then_none_did() -> None:
    assert ended(shown([], ended_at=at(1)), state="rolled_back")["migration.state"] == 0


def test_migration_when_the_coordinator_has_forgotten_it_then_how_it_ended_is_known() -> None:
    assert ended(None, state="rolled_back") == {"migration.completed": 0}


async def test_migration_when_a_site_told_absurd_figures_then_has_no_samples_and_the_next_one_has() -> None:
    kept: list[Sample] = []

    async def add(samples: list[Sample]) -> None:
        kept.extend(samples)

    async def request(*_: Any, **__: Any) -> OperationView:
        return shown([])

    reader = MigrationSamples(
        cast("Bus", SimpleNamespace(request=request)), cast("OwnSamples", SimpleNamespace(add=add))
    )
    for state_bytes in (10**400, 7):
        figures = {"total_s": 2.5, "state_bytes": state_bytes}
        event = OperationEnded.model_validate({**OperationEnded.example, "figures": figures})
        await reader._take(cast("Msg", SimpleNamespace(subject=event.to_subject(), data=event.to_bytes())))

    assert [sample.value for sample in kept if sample.metric == "migration.state"] == [7]


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
    sample = sample_of(metric, BEGIN.timestamp() + 1)
    assert (sample.entity, sample.metric, sample.at, sample.value) == (
        "rule:jfk/jfk-engine",
        "rule.wait_s",
        BEGIN.timestamp(),
        0.5,
    )


def test_metric_of_a_rule_when_the_clock_there_is_ahead_then_counts_from_its_arrival() -> None:
    metric = Metric(
        site="jfk", entity="jfk-engine", name="wait_s", value=0.5, at=datetime.max.replace(tzinfo=UTC)
    )
    assert sample_of(metric, BEGIN.timestamp()).at == BEGIN.timestamp()


async def test_metrics_of_rules_when_a_site_makes_up_names_then_are_few_and_others_are_heard() -> None:
    hear: list[Callable[[Metric], Awaitable[None]]] = []

    async def subscribe(_: type[Metric], handler: Any, site: str) -> None:
        hear.append(handler)

    told: list[SecurityRefused] = []

    async def publish(event: SecurityRefused) -> None:
        told.append(event)

    bus = SimpleNamespace(subscribe=subscribe, publish=publish)
    metrics = RuleMetrics(cast("Bus", bus), lambda: ["jfk"])
    await metrics.measure()
    for number in range(MOST_SERIES + 100):
        await hear[0](Metric(site="jfk", entity=f"e{number}", name="wait_s", value=0.5, at=BEGIN))
    await hear[0](Metric(site="jfk", entity="e0", name="wait_s", value=0.7, at=BEGIN))
    await hear[0](Metric(site="lga", entity="engine", name="wait_s", value=0.5, at=BEGIN))

    assert len(metrics._waiting._heard) == MOST_SERIES + 2
    assert 0 < len(told) < 100
    assert {event.who for event in told} == {"jfk"}


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def measured(at_s: float, name: str = "wait_s") -> Sample:
    return Sample(entity="rule:jfk/jfk-engine", metric=f"rule.{name}", at=at_s, value=at_s)


def test_what_rules_measured_when_several_workers_report_it_then_is_kept_in_the_order_of_measuring() -> None:
    clock = Clock()
    waiting = SampleQueue(clock)
    for at_s in (10.1, 10.3):  # Of one worker, ...
        waiting.add(measured(at_s))
    clock.seconds += LATE_S / 2
    assert waiting.due() == []
    for at_s in (10.0, 10.2, 10.4):  # ... and of another, which reports later.
        waiting.add(measured(at_s))
    clock.seconds += LATE_S / 2
    assert [sample.at for sample in waiting.due()] == [10.0, 10.1, 10.2, 10.3]
    clock.seconds += LATE_S / 2
    assert [sample.at for sample in waiting.due()] == [10.4]


def test_what_rules_measured_when_two_things_then_neither_waits_for_the_other() -> None:
    clock = Clock()
    waiting = SampleQueue(clock)
    waiting.add(measured(10.0))
    clock.seconds += LATE_S
    waiting.add(measured(9.0, "other_s"))
    assert waiting.due() == [measured(10.0)]
    assert waiting.due() == []
