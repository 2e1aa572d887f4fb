"""The experiments with faults: figures from metrics and marks, and the text they send."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.lab.demonstration.faults import word_count
from towpath.lab.demonstration.faults.batches import SETTLE_S, batches_of, during, marks_of, phases_of
from towpath.lab.demonstration.faults.report import Batch, Mark
from towpath.lab.demonstration.faults.rules import (
    PROCESSING,
    SCHEDULING,
    SIZE,
    TOTAL,
    batch_metrics,
    slow_worker,
)
from towpath.lab.demonstration.faults.word_count import words_of_results
from towpath.lab.faults.rule_form import form_problems
from towpath.lab.faults.validation import problems
from towpath.lab.faults.world import World
from towpath.lab.scenarios.checking import check_scenario
from towpath.lab.scenarios.commands import what_of
from towpath.lab.workload.text import lines, words_in

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def metrics(number: int, second: int, **values: float) -> list[dict[str, Any]]:
    """Return metrics of a micro-batch as a journal has them."""
    started_at = BEGUN.replace(second=second).isoformat()
    labels = {"batch": str(number), "started_at": started_at}
    about = {"kind": "metric", "site": "text", "entity": "word-count", "labels": labels}
    return [{**about, "name": name, "value": value} for name, value in values.items()]


def whole(number: int, second: int, processing_s: float = 0.5) -> list[dict[str, Any]]:
    return metrics(
        number, second, **{PROCESSING: processing_s, SCHEDULING: 0.1, TOTAL: processing_s + 0.1, SIZE: 300.0}
    )


def test_batches_when_told_twice_and_out_of_order_then_each_counts_once_in_order() -> None:
    told = [*whole(2, 2), *whole(1, 1), *whole(2, 2)]
    assert [batch.number for batch in batches_of(told)] == [1, 2]


def test_batches_when_asked_for_a_site_then_those_of_others_are_left_out() -> None:
    told = [*whole(1, 1), *({**line, "site": "cloud"} for line in whole(2, 2))]
    assert [batch.number for batch in batches_of(told, "cloud")] == [2]


def test_batch_when_a_metric_of_it_is_missing_then_is_left_out() -> None:
    told = [*whole(1, 1), *metrics(2, 2, **{PROCESSING: 0.5, TOTAL: 0.6})]
    assert [batch.number for batch in batches_of(told)] == [1]


def test_batch_when_complete_then_has_the_values_of_its_metrics() -> None:
    [batch] = batches_of(whole(7, 3))
    assert (batch.started_at, batch.events) == (BEGUN.timestamp() + 3, 300)
    assert batch.throughput == pytest.approx(500.0)


def batch(started_at: float, total_s: float) -> Batch:
    return Batch(
        number=int(started_at),
        started_at=started_at,
        events=100,
        processing_s=total_s,
        scheduling_s=0.0,
        total_s=total_s,
    )


def test_phases_when_rules_come_and_go_then_name_what_is_slow_and_mean_their_own_batches() -> None:
    marks = [
        Mark(at=10.0, rule="slow-worker-0", what="0", loaded=True),
        Mark(at=20.0, rule="slow-worker-1", what="1", loaded=True),
        Mark(at=30.0, rule="slow-worker-0", what="0", loaded=False),
    ]
    batches = [batch(2.0, 1.0), batch(10.0 + SETTLE_S / 2, 9.0), batch(12.0, 2.0), batch(14.0, 4.0)]
    phases = phases_of(batches, marks, 0.0, 40.0)
    assert [phase.slow for phase in phases] == [[], ["0"], ["0", "1"], ["1"]]
    assert [phase.batches for phase in phases] == [1, 2, 0, 0]
    assert [phase.processing_s for phase in phases] == [1.0, 3.0, None, None]
    assert phases[1].throughput == pytest.approx(200 / 6, abs=0.01)


def test_instrumentation_rule_when_judged_in_a_mesh_then_its_code_point_and_arguments_exist() -> None:
    world = World(
        sites=frozenset({"text"}), processes=frozenset({"text-engine"}), jobs=frozenset({"word-count"})
    )
    assert problems(batch_metrics("word-count"), world) == []


def test_delay_of_a_worker_when_judged_then_nothing_is_wrong_with_its_form() -> None:
    assert form_problems(slow_worker("0", "text", 1000, 10.0)) == []


def test_staircase_when_described_then_workers_get_slow_one_by_one_and_fast_one_by_one() -> None:
    options = word_count.WordCountOptions(step_s=4.0)
    scenario = word_count.staircase(40, 10.0, options)
    check_scenario(scenario)
    measuring, *steps = scenario.timeline
    assert measuring.at == 0
    assert [(step.at, step.action, what_of(step)) for step in steps] == [
        (4, "load", "slow-worker-0"),
        (8, "load", "slow-worker-1"),
        (12, "load", "slow-worker-2"),
        (16, "unload", "slow-worker-0"),
        (20, "unload", "slow-worker-1"),
        (24, "unload", "slow-worker-2"),
    ]
    assert scenario.phases.during_s == 28


def test_marks_when_rules_came_and_went_then_say_what_was_slow_when() -> None:
    journal = [
        {"kind": "phase", "at": 5.0, "phase": "during"},
        {"kind": "loaded", "at": 6.0, "rules": ["batch-metrics", "slow-worker-0"]},
        {"kind": "unloaded", "at": 9.0, "rules": ["slow-worker-0"]},
        {"kind": "phase", "at": 11.0, "phase": "after"},
    ]
    assert [(mark.at, mark.what, mark.loaded) for mark in marks_of(journal)] == [
        (6.0, "0", True),
        (9.0, "0", False),
    ]
    assert during(journal) == (5.0, 11.0)


def test_words_when_sent_over_and_over_then_are_counted_as_they_are() -> None:
    text = lines()
    sent = [words_in(line) for line in (*text, *text, *text[:3])]
    assert word_count.words_of_events(2 * len(text) + 3) == sum(sent)


def test_words_of_results_when_the_closing_word_is_among_them_then_it_does_not_count() -> None:
    bodies = [
        b'{"values": {"word": "better", "occurrences": 7}}',
        b'{"values": {"word": "fin", "occurrences": 1}}',
    ]
    assert words_of_results(bodies) == 7
