"""The limits of a processing-time window, checked before any engine gets it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from towpath.composition.job_changes import is_state_compatible
from towpath.contracts.errors import TowpathError
from towpath.contracts.job import JobSpec
from towpath.contracts.operators import ProcessingWindow

COUNTS: dict[str, Any] = {
    "kind": "processing_window",
    "fields": {"carrier": "string", "delay": "double"},
    "size_s": 10,
    "key": ["carrier"],
    "aggregates": {"delays": {"function": "sum", "field": "delay"}},
}
BY_EVENT_TIME = {**COUNTS, "kind": "window"}


def spec(operator: dict[str, Any]) -> JobSpec:
    body = {
        "name": "counts",
        "site": "jfk",
        "inputs": [{"site": "jfk", "topic": "site/departures"}],
        "output": {"topic": "counts"},
        "operator": {name: value for name, value in operator.items() if value is not None},
    }
    return JobSpec.model_validate(body)


@pytest.mark.parametrize("size", [{"size_s": 0.25}, {"size_s": None, "size_events": 1}])
def test_processing_window_when_one_size_is_given_then_is_valid(size: dict[str, Any]) -> None:
    assert isinstance(spec({**COUNTS, **size}).operator, ProcessingWindow)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size_s": None}, "exactly one of size_s and size_events"),
        ({"size_events": 5}, "exactly one of size_s and size_events"),
        ({"size_s": 0}, "greater than 0"),
        ({"size_s": None, "size_events": 0}, "greater than or equal to 1"),
        ({"key": ["origin"]}, "'origin' is not among the fields"),
        ({"aggregates": {"n": {"function": "max", "field": "nope"}}}, "'nope' is not among the fields"),
        ({"aggregates": {}}, "at least 1 item"),
        ({"slide_s": 5}, "Extra inputs are not permitted"),
        ({"fields": {"serial": "long"}}, "serial are columns of every event"),
    ],
)
def test_processing_window_when_it_makes_no_sense_then_the_error_says_why(
    change: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        spec({**COUNTS, **change})
    error = TowpathError.of_validation(raised.value).detail
    assert said in error.message
    assert error.field is not None
    assert error.field.startswith("operator")


def test_checkpoint_when_a_processing_window_changes_then_it_serves_since_there_is_no_state() -> None:
    by_count = {**COUNTS, "size_s": None, "size_events": 5, "key": []}
    assert is_state_compatible(spec(COUNTS), spec(by_count))
    assert is_state_compatible(spec({"kind": "forward"}), spec(COUNTS))


def test_checkpoint_when_a_window_over_event_time_becomes_one_over_processing_time_then_does_not_serve() -> (
    None
):
    assert not is_state_compatible(spec(BY_EVENT_TIME), spec(COUNTS))
    assert not is_state_compatible(spec(COUNTS), spec(BY_EVENT_TIME))
