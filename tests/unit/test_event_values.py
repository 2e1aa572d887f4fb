"""Values in events of `site/metrics`, and in results."""

from __future__ import annotations

import json
from typing import Any

import pytest

from towpath.stored_values.event_values import values_of_metrics, values_of_result
from towpath.stored_values.stored_value import StoredValue

STORED_AT = 1_767_225_600.0
"""2026-01-01 00:00 UTC."""


def metrics(**event: Any) -> list[StoredValue]:
    return values_of_metrics(json.dumps(event).encode(), STORED_AT)


def named(values: list[StoredValue]) -> list[tuple[str, str, float, float]]:
    return [(each.entity, each.metric, each.at - STORED_AT, each.value) for each in values]


def test_event_when_flat_then_each_number_is_a_value_of_its_entity() -> None:
    found = metrics(
        entityType="POD",
        podName="engine",
        podNamespace="towpath",
        nodeID="jfk",
        time="2026-01-01T00:00:05Z",
        cpu_ptc=1.5,
        restarts=2,
        state="up",
        ready=True,
    )

    assert named(found) == [("pod:engine", "cpu_ptc", 5.0, 1.5), ("pod:engine", "restarts", 5.0, 2.0)]
    assert found[0].about.labels == {"podName": "engine", "podNamespace": "towpath", "nodeID": "jfk"}


def test_event_when_it_names_one_metric_then_has_its_description() -> None:
    (found,) = metrics(
        metricID="speed", entityID="robot7", val=3, timestamp=1_767_225_601_500, units="m/s", group="robots"
    )

    assert named([found]) == [("robot7", "speed", 1.5, 3.0)]
    assert (found.about.unit, found.about.group) == ("m/s", "robots")


def test_event_when_it_says_nothing_of_itself_then_is_an_applications_of_when_it_was_stored() -> None:
    found = metrics(level=4.0, transient=True)

    assert named(found) == [("application", "level", 0.0, 4.0)]
    assert found[0].is_transient


@pytest.mark.parametrize(
    "event", [b"", b"[1]", b"\xff", b"3", b'{"metricID": "x", "val": "much"}', b'{"x": NaN}']
)
def test_event_when_it_has_no_number_then_has_no_value(event: bytes) -> None:
    assert values_of_metrics(event, STORED_AT) == []


def test_answer_when_it_has_a_key_then_both_are_named() -> None:
    answer = {
        "values": {"query": "mean_delay", "value": 12.5, "low": 12.0},
        "key": {"carrier": "AA"},
        "window": {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:00:10Z"},
    }

    found = values_of_result("delays", json.dumps(answer).encode(), STORED_AT)

    assert named(found) == [
        ("query:delays:AA", "mean_delay", 10.0, 12.5),
        ("query:delays:AA", "mean_delay.low", 10.0, 12.0),
    ]
    assert (found[0].about.group, found[0].about.labels) == ("delays", {"carrier": "AA"})


def test_result_when_of_another_job_then_its_fields_are_metrics() -> None:
    result = {"values": {"mean": 3.0, "name": "x"}, "key": None, "window": None}

    assert named(values_of_result("hourly", json.dumps(result).encode(), STORED_AT)) == [
        ("job:hourly", "mean", 0.0, 3.0)
    ]


@pytest.mark.parametrize(
    "result", [b"", b"[]", b'{"values": 3}', b'{"values": {"a": 1}, "key": 3, "window": 4}']
)
def test_result_when_it_is_none_then_nothing_fails(result: bytes) -> None:
    assert len(values_of_result("hourly", result, STORED_AT)) <= 1


@pytest.mark.parametrize(
    "told", ['"timestamp": 1767225600000000', '"timestamp": -1', '"time": "1900-01-01T00:00:00Z"']
)
def test_event_when_it_tells_no_date_then_its_value_is_of_when_it_was_stored(told: str) -> None:
    event = f'{{"metricID": "m", "entityID": "x", "val": 1, {told}}}'.encode()

    assert [value.at for value in values_of_metrics(event, 7.0)] == [7.0]
