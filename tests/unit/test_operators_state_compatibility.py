"""The changes of a job that its checkpoint survives."""

from __future__ import annotations

from typing import Any

import pytest

from towpath.contracts.job import JobSpec
from towpath.operators.state_compatibility import is_state_compatible

WINDOW: dict[str, Any] = {
    "kind": "window",
    "fields": {"k": "string", "v": "double", "at": "timestamp", "unused": "long"},
    "event_time": "at",
    "size_s": 10,
    "watermark_s": 2,
    "key": ["k"],
    "aggregates": {"a": {"function": "sum", "field": "v"}, "b": {"function": "count"}},
}
FILTER = {"kind": "filter", "fields": {"v": "double"}, "where": "v > 1"}
MAP = {"kind": "map", "fields": {"v": "long"}, "select": {"w": "v + 1"}}
PYTHON = {"kind": "python", "fields": {"v": "long"}, "entry": "m:f", "parameters": {"p": 1}}


def job(operator: dict[str, Any], **more: Any) -> JobSpec:
    spec = {
        "name": "job",
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/a"}, {"site": "ewr", "topic": "site/a"}],
        "output": {"topic": "out"},
        "operator": operator,
    }
    return JobSpec.model_validate({**spec, **more})


@pytest.mark.parametrize("operator", [WINDOW, FILTER, PYTHON], ids=lambda o: o["kind"])
def test_state_when_only_output_trigger_rate_or_start_change_then_it_survives(
    operator: dict[str, Any],
) -> None:
    inputs = [{"site": "jfk", "topic": "site/a", "start": "latest"}, {"site": "ewr", "topic": "site/a"}]
    changed = job(
        operator, output={"topic": "other"}, trigger_s=7, max_events_per_batch=5, inputs=inputs, site="ewr"
    )

    assert is_state_compatible(job(operator), changed)


@pytest.mark.parametrize("new", [MAP, {"kind": "forward"}, {**FILTER, "where": "v > 2"}])
def test_state_when_a_stateless_operator_becomes_another_then_it_survives(new: dict[str, Any]) -> None:
    assert is_state_compatible(job(FILTER), job(new))


@pytest.mark.parametrize(
    "inputs",
    [
        [{"site": "jfk", "topic": "site/a"}],
        [{"site": "ewr", "topic": "site/a"}, {"site": "jfk", "topic": "site/a"}],
        [{"site": "jfk", "topic": "site/b"}, {"site": "ewr", "topic": "site/a"}],
    ],
    ids=["fewer", "swapped", "other"],
)
def test_state_when_inputs_change_then_it_serves_the_same_computation(
    inputs: list[dict[str, Any]],
) -> None:
    assert is_state_compatible(job(WINDOW), job(WINDOW, inputs=inputs))


@pytest.mark.parametrize(
    "change",
    [
        {"size_s": 20},
        {"shape": "sliding", "slide_s": 5},
        {"event_time": None},
        {"watermark_s": 3},
        {"key": []},
        {"aggregates": {"a": {"function": "avg", "field": "v"}, "b": {"function": "count"}}},
        {"fields": {**WINDOW["fields"], "v": "long"}},
        {"fields": {**WINDOW["fields"], "k": "long"}},
    ],
    ids=str,
)
def test_state_when_a_window_computes_something_else_then_it_is_lost(change: dict[str, Any]) -> None:
    assert not is_state_compatible(job(WINDOW), job({**WINDOW, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"fields": {name: kind for name, kind in WINDOW["fields"].items() if name != "unused"}},
        {"aggregates": dict(reversed(WINDOW["aggregates"].items()))},
    ],
    ids=["unused field", "order of aggregates"],
)
def test_state_when_a_window_computes_the_same_then_it_survives(change: dict[str, Any]) -> None:
    assert is_state_compatible(job(WINDOW), job({**WINDOW, **change}))


@pytest.mark.parametrize(
    "change", [{"entry": "m:g"}, {"parameters": {"p": 2}}, {"artefact": "other.whl"}], ids=str
)
def test_state_when_user_code_changes_then_it_is_lost(change: dict[str, Any]) -> None:
    assert not is_state_compatible(job(PYTHON), job({**PYTHON, **change}))


@pytest.mark.parametrize(("old", "new"), [(WINDOW, FILTER), (FILTER, WINDOW), (WINDOW, PYTHON)])
def test_state_when_a_stateful_operator_comes_or_goes_then_it_is_lost(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert not is_state_compatible(job(old), job(new))
