"""The verdict on processing-time windows, fault by fault."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pandas as pd
import pytest

from towpath.checker.identity import RangeIdentity, identity_of
from towpath.checker.observation import ReceivedMessage, observe
from towpath.checker.ranges import Partition, Range, judge_ranges, partition, range_truth
from towpath.checker.verdict import Leniency, Verdict
from towpath.contracts.errors import TowpathError
from towpath.contracts.operators import Aggregate

AGGREGATES = {
    "total": Aggregate.model_validate({"function": "sum", "field": "v"}),
    "mean": Aggregate.model_validate({"function": "avg", "field": "v"}),
}
REJECTED = frozenset({7, 21, 22, 23, 24})
"""Serial numbers of the input that are no accepted event."""

EVENTS = pd.DataFrame(
    [{"serial": n, "k": "odd" if n % 2 else "even", "v": n / 4} for n in range(1, 41) if n not in REJECTED]
)
CUT: list[Range] = [(0, 9), (9, 20), (20, 24), (24, 40)]
"""A possible cut into windows. The third holds no accepted event, so it has no result."""


def result(after: int, through: int, key: str, **changes: Any) -> dict[str, Any]:
    """A result as it is published, computed by other means than the checker's."""
    serials = [n for n in range(after + 1, through + 1) if n not in REJECTED]
    held = [n for n in serials if (n % 2 == 1) == (key == "odd")]
    return {
        "job": "counts",
        "site": "jfk",
        "epoch": 1,
        "serial": max(held),
        "stored_at": "2026-01-01T00:00:00.000Z",
        "after": after,
        "through": through,
        "count": len(held),
        "key": {"k": key},
        "values": {"total": sum(held) / 4, "mean": sum(held) / 4 / len(held)},
    } | changes


def results(cut: Iterable[Range]) -> list[dict[str, Any]]:
    return [result(*ends, key) for ends in cut if ends != (20, 24) for key in ("even", "odd")]


RECEIVED = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + 0.5


def seen(body: dict[str, Any], connection: int = 1) -> ReceivedMessage:
    return observe(json.dumps(body).encode(), identity_of, RECEIVED, connection)


def verdict_on(bodies: Iterable[dict[str, Any]], **changes: Any) -> Verdict:
    arguments = {"job": "counts", "key": ["k"], "aggregates": AGGREGATES, "after": 0, "through": 40}
    return judge_ranges(EVENTS, [seen(body) for body in bodies], **{**arguments, **changes})


def counts(verdict: Verdict) -> dict[str, int]:
    names = ("lost", "duplicated", "wrong", "unexpected", "out_of_order", "late", "redelivered")
    return {name: getattr(verdict, name) for name in names if getattr(verdict, name)}


@pytest.mark.parametrize("cut", [CUT, [(0, 40)], [(n, n + 4) for n in range(0, 20, 4)] + [(20, 40)]])
def test_verdict_when_windows_partition_the_input_then_is_clean_wherever_they_end(cut: list[Range]) -> None:
    verdict = verdict_on(results(cut))
    assert verdict.clean
    assert counts(verdict) == {}
    assert verdict.expected == verdict.results == len(results(cut))


def test_verdict_when_windows_leave_out_rejected_events_only_then_is_clean() -> None:
    assert verdict_on(results([(0, 6), (7, 20), (24, 40)])).clean


def test_verdict_when_nothing_came_then_every_key_lost_one_result() -> None:
    verdict = verdict_on([])
    assert counts(verdict) == {"lost": 2}
    assert "after 0; through 40" in verdict.examples["lost"][0]


def test_verdict_when_there_is_a_gap_then_the_keys_with_events_in_it_lost_a_result() -> None:
    verdict = verdict_on(results([(0, 9), (10, 20), (24, 40)]))
    assert counts(verdict) == {"lost": 1}
    assert verdict.examples["lost"] == ["job counts; after 9; through 10; key k='even'"]


def test_verdict_when_the_last_events_are_in_no_window_then_they_are_lost() -> None:
    assert counts(verdict_on(results([(0, 9), (9, 39)]))) == {"lost": 1}


def test_verdict_when_one_key_of_a_window_is_missing_then_its_result_is_lost() -> None:
    assert counts(verdict_on(results(CUT)[1:])) == {"lost": 1}


def test_verdict_when_windows_overlap_then_the_one_too_many_is_duplicated() -> None:
    verdict = verdict_on(results([*CUT, (15, 30)]))
    assert counts(verdict) == {"duplicated": 2, "out_of_order": 2}
    assert "after 15; through 30" in verdict.examples["duplicated"][0]
    assert verdict.expected == len(results(CUT))


def test_verdict_when_overlapping_windows_also_cover_a_gap_then_nothing_is_lost() -> None:
    assert counts(verdict_on(results([(0, 9), (5, 20), (20, 24), (24, 40)]))) == {"duplicated": 2}


def test_verdict_when_a_result_comes_twice_then_one_is_duplicated_unless_the_broker_redelivered_it() -> None:
    assert counts(verdict_on([*results(CUT), results(CUT)[-1]])) == {"duplicated": 1}
    arguments: dict[str, Any] = {"key": ["k"], "aggregates": AGGREGATES, "after": 0, "through": 40}
    again = [*map(seen, results(CUT)), seen(results(CUT)[-1], connection=2)]
    assert counts(judge_ranges(EVENTS, again, job="counts", **arguments)) == {"redelivered": 1}


@pytest.mark.parametrize(
    "change",
    [
        {"values": {"total": 4.0, "mean": 1.25}},
        {"values": {"total": 5.0}},
        {"count": 5},
        {"serial": 7},
    ],
    ids=["sum", "aggregate left out", "count", "newest serial"],
)
def test_verdict_when_a_result_is_not_that_of_its_events_then_it_is_wrong(change: dict[str, Any]) -> None:
    verdict = verdict_on([result(0, 9, "even", **change), *results(CUT)[1:]])
    assert counts(verdict) == {"wrong": 1}


def test_verdict_when_an_overlapping_window_has_other_values_then_it_is_wrong_as_well() -> None:
    twice = [*results(CUT), result(5, 12, "even", count=99)]
    assert counts(verdict_on(twice)) == {"duplicated": 1, "wrong": 1, "out_of_order": 1}


def test_verdict_when_a_window_has_a_key_without_events_then_it_is_unexpected() -> None:
    assert counts(verdict_on([*results(CUT), result(0, 9, "even") | {"key": {"k": "none"}}])) == {
        "unexpected": 1
    }


@pytest.mark.parametrize("change", [{"after": 9, "through": 9}, {"job": "other"}, {"through": None}])
def test_verdict_when_a_result_is_of_no_window_of_the_job_then_it_is_unexpected(
    change: dict[str, Any],
) -> None:
    assert counts(verdict_on([*results(CUT), result(0, 9, "even") | change])) == {"unexpected": 1}


def test_verdict_when_windows_come_in_another_order_or_late_then_it_says_so_and_is_clean() -> None:
    verdict = verdict_on([*results(CUT)[2:], *results(CUT)[:2]], leniency=Leniency(late_after_s=0.4))
    assert counts(verdict) == {"out_of_order": 2, "late": 6}
    assert verdict.clean


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ([], Partition([], [], [(0, 10)])),
        ([(0, 10)], Partition([(0, 10)], [], [])),
        ([(5, 10), (0, 5), (0, 5)], Partition([(0, 5), (5, 10)], [], [])),
        ([(2, 4), (6, 8)], Partition([(2, 4), (6, 8)], [], [(0, 2), (4, 6), (8, 10)])),
        ([(0, 5), (0, 10), (5, 10)], Partition([(0, 5), (5, 10)], [(0, 10)], [])),
        ([(0, 6), (4, 10)], Partition([(0, 6)], [(4, 10)], [])),
        ([(0, 12), (14, 16)], Partition([(0, 12), (14, 16)], [], [])),
        ([(12, 14)], Partition([(12, 14)], [], [(0, 10)])),
    ],
)
def test_partition_when_ranges_are_given_then_parts_overlaps_and_gaps_are_told(
    ranges: list[Range], expected: Partition
) -> None:
    assert partition(ranges, 0, 10) == expected


def test_range_truth_when_there_is_no_key_then_a_range_has_one_result_and_empty_ranges_none() -> None:
    truth = range_truth(EVENTS, [(0, 3), (20, 24), (2, 4)], [], AGGREGATES, "j")
    assert [(i, values["total"]) for i, values in truth.items()] == [
        (RangeIdentity("j", 0, 3, ()), 1.5),
        (RangeIdentity("j", 2, 4, ()), 1.75),
    ]


def test_range_truth_when_an_event_lacks_its_key_then_it_is_in_no_window() -> None:
    events = pd.DataFrame({"serial": [1, 2], "k": [None, "x"], "v": [1.0, 2.0]})
    assert list(range_truth(events, [(0, 2)], ["k"], AGGREGATES)) == [RangeIdentity("", 0, 2, (("k", "x"),))]


def test_range_truth_when_a_field_is_no_column_then_the_error_names_it() -> None:
    with pytest.raises(TowpathError, match="field nope"):
        range_truth(EVENTS, [(0, 2)], ["nope"], AGGREGATES)
