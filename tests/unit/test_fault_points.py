"""Rules at named points: what passes, what is held up, whose rule it is."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from running.fault_trial import PARCELS, Bench, Parcel, loaded, parcels, read_reports, serials
from running.waiting import WITHIN_S, until
from towpath.contracts.faults import DataPoint
from towpath.hooks.points import POINTS, InjectedFault, Point

AT = {"point": "source.read"}
LONG_MS = 600_000
"""No test waits so long: it would fail by its time limit."""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def point(bench: Bench, *actions: dict[str, Any], **rule: Any) -> Point:
    made = Point("source.read")
    made.rules = (bench.active(loaded(AT, *actions, **rule)),)
    return made


def test_points_when_listed_then_are_those_of_the_contract() -> None:
    assert list(POINTS) == [point.value for point in DataPoint]


def test_items_when_every_third_is_hit_over_several_bundles_then_counting_goes_on(bench: Bench) -> None:
    dropping = point(bench, {"fault": "drop"}, every=3)

    assert serials(dropping.through(parcels(4), PARCELS)) == [1, 2, 4]
    assert serials(dropping.through(parcels(4), PARCELS)) == [1, 3, 4]


def test_items_when_no_rule_hits_then_are_the_very_same_sequence(bench: Bench) -> None:
    items = parcels(3)
    assert point(bench, {"fault": "drop"}, every=100).through(items, PARCELS) is items


def test_conditions_when_they_name_payload_event_and_fields_then_see_those_of_each_item(bench: Bench) -> None:
    for condition in (
        'payload == "{\\"n\\": 2}"',
        "event.n == 2",
        "serial == 2",
        'job == "a" && serial == 2',
    ):
        dropping = point(bench, {"fault": "drop"}, condition=condition)
        assert serials(dropping.through(parcels(3), PARCELS, job="a")) == [1, 3], condition


def test_actions_when_several_then_each_is_about_what_the_one_before_left_of_the_hits(bench: Bench) -> None:
    twice_then_marked = point(
        bench,
        {"fault": "duplicate", "times": 1},
        {"fault": "replace", "field": "n", "value": 0},
        condition="serial == 2",
    )
    passed = twice_then_marked.through(parcels(3), PARCELS)
    assert [p.body for p in passed] == [b'{"n": 1}', b'{"n":0}', b'{"n":0}', b'{"n": 3}']


def test_rules_when_several_at_one_point_then_each_sees_what_the_earlier_ones_let_pass(bench: Bench) -> None:
    both = Point("source.read")
    odd = bench.active(loaded(AT, {"fault": "drop"}, condition="serial % 2 == 1"))
    second = bench.active(loaded(AT, {"fault": "drop"}, every=2))
    both.rules = (odd, second)
    assert serials(both.through(parcels(8), PARCELS)) == [2, 6]


def test_rule_when_it_is_of_a_job_then_others_pass_and_are_not_counted(bench: Bench) -> None:
    dropping = point(bench, {"fault": "drop"}, where={"job": "mine"})

    assert serials(dropping.through(parcels(2), PARCELS, job="other")) == [1, 2]
    assert serials(dropping.through(parcels(2), PARCELS)) == [1, 2]
    assert dropping.through(parcels(2), PARCELS, job="mine") == []
    (rule,) = dropping.rules
    assert (rule.count().looked, rule.count().acted) == (2, 2)  # type: ignore[attr-defined]


def test_throw_when_one_of_a_bundle_is_hit_then_the_code_sees_the_named_exception(bench: Bench) -> None:
    failing = point(bench, {"fault": "throw", "error": "ConnectionError", "message": "cut"}, every=2)

    assert serials(failing.through(parcels(1), PARCELS)) == [1]
    with pytest.raises(ConnectionError, match="cut") as caught:
        failing.through(parcels(1), PARCELS)
    assert isinstance(caught.value, InjectedFault)


def test_throw_when_the_process_ends_with_it_then_its_count_was_told_before(bench: Bench) -> None:
    failing = point(bench, {"fault": "throw"}, every=2)

    with pytest.raises(InjectedFault):
        failing.through(parcels(3), PARCELS)

    (report,) = read_reports(bench.directory / "reports.jsonl")
    assert report.count is not None
    assert (report.count.looked, report.count.acted) == (3, 1)


def test_throw_when_again_at_once_then_its_count_is_not_told_each_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath.lab.faults.point_rule.monotonic", lambda: 1.0)
    failing = point(bench, {"fault": "throw"})
    for _ in range(3):
        with pytest.raises(InjectedFault):
            failing.through(parcels(1), PARCELS)

    assert len(read_reports(bench.directory / "reports.jsonl")) == 1


def test_fault_when_it_fails_itself_then_everything_passes_and_it_is_counted(bench: Bench) -> None:
    items = parcels(2)
    broken = point(bench, {"fault": "drop"}, {"fault": "throw", "error": "nowhere:Missing"})

    assert broken.through(items, PARCELS) is items
    (rule,) = broken.rules
    count = rule.count()  # type: ignore[attr-defined]
    assert (count.acted, count.errors) == (2, 1)
    assert "nowhere:Missing" in count.last_error


def test_condition_when_it_does_not_fit_one_item_then_that_passes_and_is_counted_as_an_error(
    bench: Bench,
) -> None:
    items = [*parcels(2), Parcel(3, b'{"n": null}'), Parcel(4, b"{}"), Parcel(5, b'{"n": 5}')]
    dropping = point(bench, {"fault": "drop"}, condition="event.n > 1")

    assert serials(dropping.through(items, PARCELS)) == [1, 3, 4]
    (rule,) = dropping.rules
    count = rule.count()  # type: ignore[attr-defined]
    assert (count.looked, count.acted, count.errors) == (5, 2, 1)
    assert count.last_error.startswith("TypeError")


def test_delay_when_several_are_hit_then_holds_the_bundle_up_once_for_each(bench: Bench) -> None:
    slow = point(bench, {"fault": "delay", "ms": 20}, every=2)
    begun = time.monotonic()
    assert serials(slow.through(parcels(10), PARCELS)) == list(range(1, 11))
    assert time.monotonic() - begun >= 0.1


def test_delay_when_its_rule_ends_then_what_it_holds_up_goes_on(bench: Bench) -> None:
    slow = point(bench, {"fault": "delay", "ms": LONG_MS})
    (rule,) = slow.rules
    passed: list[Any] = []
    thread = threading.Thread(target=lambda: passed.append(slow.through(parcels(1), PARCELS)), daemon=True)
    thread.start()
    until(lambda: rule.evaluation.acted)  # type: ignore[attr-defined]
    assert thread.is_alive()

    rule.end()  # type: ignore[attr-defined]
    thread.join(WITHIN_S)
    assert [serials(p) for p in passed] == [[1]]


def test_delay_when_no_one_renews_its_rule_then_what_it_holds_up_goes_on(bench: Bench) -> None:
    slow = point(bench, {"fault": "delay", "ms": LONG_MS})
    slow.rules[0].expires_at = time.time() + 0.2  # type: ignore[attr-defined]
    assert serials(slow.through(parcels(1), PARCELS)) == [1]


async def test_delay_when_on_an_event_loop_then_other_tasks_go_on(bench: Bench) -> None:
    slow = point(bench, {"fault": "delay", "ms": LONG_MS})
    held = asyncio.create_task(slow.through_async(parcels(1), PARCELS))
    while not slow.rules[0].evaluation.acted:  # type: ignore[attr-defined]
        await asyncio.sleep(0)
    assert not held.done()

    slow.rules[0].end()  # type: ignore[attr-defined]
    assert serials(await asyncio.wait_for(held, WITHIN_S)) == [1]


def test_rule_when_its_time_is_over_then_does_nothing_though_it_is_still_at_the_point(bench: Bench) -> None:
    dropping = point(bench, {"fault": "drop"})
    dropping.rules[0].expires_at = time.time() - 1  # type: ignore[attr-defined]
    assert serials(dropping.through(parcels(2), PARCELS)) == [1, 2]


def test_emit_when_items_are_hit_then_measures_each(bench: Bench) -> None:
    measuring = point(
        bench,
        {
            "fault": "emit",
            "metric": "size_bytes",
            "value": "size(payload)",
            "labels": {"serial": "no. {serial}", "job": "{job}", "kind": "plain"},
            "entity": "{job}-reader",
        },
        condition="serial > 8",
    )
    items = parcels(10)
    assert measuring.through(items, PARCELS, job="a") is items

    metrics = [report.metric for report in bench.reported()]
    assert [m and (m.site, m.entity, m.name, m.value) for m in metrics] == [
        ("jfk", "a-reader", "size_bytes", 8.0),
        ("jfk", "a-reader", "size_bytes", 9.0),
    ]
    assert metrics[1] is not None
    assert metrics[1].labels == {"serial": "no. 10", "job": "a", "kind": "plain"}


def test_chance_when_seeded_alike_then_hits_alike(bench: Bench) -> None:
    def outcome(seed: int) -> list[int]:
        dropping = point(bench, {"fault": "drop"}, probability=0.5, seed=seed)
        return serials(dropping.through(parcels(200), PARCELS))

    assert outcome(1) == outcome(1)
    assert outcome(1) != outcome(2)
