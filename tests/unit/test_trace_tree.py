"""Spans from many places become one tree; loose ends and crossings are seen."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from running.edges import EDGES, MICRO_BATCHES, asked_by, crossings
from towpath.cli.waterfall import BAR_WIDTH, bar, waterfall
from towpath.collector.traces import is_of_event, summary
from towpath.contracts.commands import StrategyName
from towpath.contracts.traces import Span
from towpath.protocols.spans import operation_span
from towpath.telemetry.shipping import UNFINISHED
from towpath.telemetry.trace_tree import in_tree, merged, orphans
from towpath.telemetry.tracing import span_of, trace_of

TRACE = trace_of("t")


def span(name: str, parent: str | None = None, service: str = "agent", **changes: Any) -> Span:
    known: dict[str, Any] = dict(trace=TRACE, site="jfk", begun_ns=0, ended_ns=1_000_000)
    above = span_of(parent) if parent else None
    return Span(**{**known, **dict(span=span_of(name), parent=above, name=name, service=service), **changes})


ROOT = span("towpath migrate", service="cli", site="hub", ended_ns=9_000_000)
OPERATION = span(
    "operation migrate",
    "towpath migrate",
    service="coordinator",
    site="hub",
    begun_ns=10,
    ended_ns=8_000_000,
    attributes={"towpath.operation": "m1"},
)
STEP = span("serve resume", "operation migrate", begun_ns=20, error="no state")


def test_spans_when_told_twice_then_the_ended_one_is_kept() -> None:
    begun = span("a", attributes={UNFINISHED: True})
    ended = span("a", ended_ns=7)
    assert merged([begun, ended]) == merged([ended, begun]) == [ended]


def test_tree_when_spans_come_in_any_order_then_each_is_behind_its_parent() -> None:
    assert in_tree([STEP, OPERATION, ROOT]) == [(0, ROOT), (1, OPERATION), (2, STEP)]


def test_tree_when_a_parent_is_missing_then_its_children_begin_a_tree_and_are_orphans() -> None:
    assert in_tree([STEP, ROOT]) == [(0, ROOT), (0, STEP)]
    assert orphans([STEP, ROOT]) == [STEP]
    assert orphans([STEP, OPERATION, ROOT]) == []


def test_crossings_when_a_transfer_leads_to_another_site_then_agents_are_a_pair() -> None:
    there = span("receive checkpoint", "serve resume", site="cloud")
    same = span("ship checkpoint", "serve resume")
    assert crossings([ROOT, OPERATION, STEP, there, same]) == {
        ("cli", "coordinator"),
        ("coordinator", "agent"),
        ("agent", "agent"),
    }


def test_crossings_when_a_command_led_to_micro_batches_then_show_that() -> None:
    serving = span("serve run-query", "serve resume", service="engine")
    batch = span("batch 7", "serve run-query", service="engine")
    assert MICRO_BATCHES not in crossings([ROOT, OPERATION, STEP, serving])
    assert MICRO_BATCHES in crossings([ROOT, OPERATION, STEP, serving, batch])


@pytest.mark.parametrize("strategy", [s for s in StrategyName if s is not StrategyName.AUTO])
def test_edges_when_a_strategy_is_there_then_it_has_declared_ones(strategy: StrategyName) -> None:
    assert ("coordinator", "agent") in EDGES[strategy]
    assert asked_by("cli") not in EDGES[strategy]


def test_summary_when_a_trace_is_about_an_operation_then_names_it() -> None:
    found = summary(TRACE, [STEP, OPERATION, ROOT])
    assert (found.name, found.service, found.operation) == ("towpath migrate", "cli", "m1")
    assert (found.spans, found.failed, found.duration_s) == (3, 1, 0.009)
    assert not is_of_event([STEP])
    assert is_of_event([span("stored", attributes={"towpath.serial": 7})])


def test_bar_when_a_span_is_short_or_goes_on_then_still_shows() -> None:
    assert bar(ROOT, 0, 9_000_000) == "█" * BAR_WIDTH
    assert bar(span("a", begun_ns=9_000_000, ended_ns=9_000_000), 0, 9_000_000).strip() == "█"
    assert bar(span("a", attributes={UNFINISHED: True}), 0, 9_000_000).endswith("▸")


def test_waterfall_when_a_span_failed_then_says_why_below_it() -> None:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(waterfall([STEP, OPERATION, ROOT]))
    lines = captured.get().splitlines()
    assert [line.split("  ")[0].strip() for line in lines[1:2]] == ["towpath migrate"]
    assert lines[2].startswith("  operation migrate")
    assert lines[3].startswith("    serve resume")
    assert "agent@jfk" in lines[3]
    assert lines[4].strip() == "no state"


def test_operation_when_looked_for_then_its_span_has_the_id_that_follows_from_its_own() -> None:
    assert operation_span("m1") == span_of("operation", "m1")
