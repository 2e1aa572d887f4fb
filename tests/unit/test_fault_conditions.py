"""Conditions of fault rules: when they hold, and what is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from towpath.contracts.errors import TowpathError
from towpath.contracts.faults import Rule
from towpath.lab.faults.conditions import Evaluation, compile_condition, compile_value

LOADED_AT = 1_000.0
EVENT = {"delay": 12, "ratio": 0.5, "carrier": "UA", "none": None, "legs": [1, 2], "at": {"lat": 40.6}}
FIELDS = {
    "payload": json.dumps(EVENT).encode(),
    "topic": "departures",
    "serial": 7,
    "job": None,
    "site": "jfk",
}
SHARED = {"cpu_percent(jfk)": 85.0}


def evaluation(condition: str = "true", *, elapsed_s: float = 0.0, **how: Any) -> Evaluation:
    rule = Rule.model_validate(
        {
            "name": "r",
            "event": {"point": "source.read"},
            "actions": [{"fault": "drop"}],
            "condition": condition,
            **how,
        }
    )
    return Evaluation(rule, loaded_at=LOADED_AT, shared=SHARED.get, clock=lambda: LOADED_AT + elapsed_s)


def hits(size: int, condition: str = "true", fields: Mapping[str, Any] = FIELDS, **how: Any) -> list[int]:
    """Numbers, from 1, of the occurrences that a rule acts on; no error is expected."""

    def failed(error: Exception) -> None:
        raise error

    return [place + 1 for place in evaluation(condition, **how).select(size, lambda place: fields, failed)]


def no_fields(place: int) -> Mapping[str, Any]:
    raise AssertionError(f"the fields at {place} are not needed")


def no_failure(error: Exception) -> None:
    raise error


# The condition


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("true", True),
        ("event.delay > 11", True),
        ("event.delay > 11.5", True),
        ("double(event.delay) / 24.0 == event.ratio", True),
        ('event.carrier in ["AA", "UA"] && !(event.delay < 3)', True),
        ("event.at.lat > 40.0 && event.legs[1] == 2", True),
        ("event.legs.exists(leg, leg > 1)", True),
        ("event.legs.all(leg, leg > 1)", False),
        ('event.delay == "12"', False),
        ("event.none == null", True),
        ("event.missing > 3", False),
        ("event.missing == null", False),
        ("event.at.missing.deeper > 3", False),
        ("event.legs[5] == 1", False),
        ("!has(event.missing)", True),
        ("has(event.missing) || event.delay == 12", True),
        ("event.missing > 3 || event.delay == 12", True),
        ('payload.contains("UA") && payload.startsWith("{") && payload.endsWith("}")', True),
        ('payload.matches("delay.: [0-9]+")', True),
        ("size(payload) > 20 && size(event.legs) == 2", True),
        ('topic == "departures" && serial % 2 == 1', True),
        ('job == "delays"', False),
        ("count == 1 && acted == 0", True),
        ("elapsed_s >= 0 && elapsed_s < 2.0", True),
        ('cpu_percent("jfk") > 80.0', True),
        ("cpu_percent(site) > 80.0 && cpu_percent('jfk') < 90.0", True),
        ('cpu_percent("lga") > 80.0', False),
        ('!(memory_percent("jfk") > 80.0)', False),
    ],
)
def test_condition_when_it_is_evaluated_then_it_holds_or_not(condition: str, holds: bool) -> None:
    assert evaluation(condition).holds(FIELDS) is holds


@pytest.mark.parametrize(
    "payload", [b"", b"no json", b"[1]", b"3", b"null", b"\xff\xfe", b"[" * 100_000, None]
)
def test_event_when_the_payload_is_no_json_object_then_it_has_no_fields(payload: bytes | None) -> None:
    assert not evaluation("event.delay > 3").holds({"payload": payload})
    assert evaluation("!has(event.delay)").holds({"payload": payload})


@pytest.mark.parametrize(
    "condition",
    ["event.none > 3", "event.carrier > 3", "event.delay * 1.5 > 3.0", "event.delay", "1 / (serial - 7) > 1"],
)
def test_condition_when_values_do_not_fit_then_each_is_told_and_the_others_are_looked_at(
    condition: str,
) -> None:
    told: list[Exception] = []
    looking = evaluation(f"({condition}) || serial == 1")

    found = looking.select(3, lambda place: [FIELDS, {"serial": 1}, FIELDS][place], told.append)

    assert (found, len(told)) == ([1], 2)
    assert (looking.looked, looking.acted) == (3, 1)


# Which occurrences


def test_every_when_occurrences_come_in_bundles_then_it_counts_across_them() -> None:
    looking = evaluation(every=1000)
    assert looking.select(999, no_fields, no_failure) == []
    assert looking.select(1, lambda place: {}, no_failure) == [0]
    assert looking.select(2500, lambda place: {}, no_failure) == [999, 1999]
    assert (looking.looked, looking.acted) == (3500, 3)


@pytest.mark.parametrize(
    ("how", "acts_on"),
    [
        ({}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ({"every": 4}, [4, 8]),
        ({"once": True}, [1]),
        ({"every": 4, "once": True}, [4]),
        ({"condition": "count > 5", "every": 2}, [6, 8]),
        ({"condition": "count > 5", "once": True}, [6]),
        ({"condition": "acted < 2"}, [1, 2]),
        ({"probability": 0.0}, []),
        ({"probability": 1.0, "every": 4}, [4, 8]),
    ],
)
def test_rule_when_several_fields_decide_then_it_acts_where_all_agree(
    how: dict[str, Any], acts_on: list[int]
) -> None:
    assert hits(9, **how) == acts_on


def test_rule_when_it_considers_few_occurrences_then_fields_of_the_others_are_not_read() -> None:
    assert evaluation("event.delay > 3", probability=1e-300).select(1_000_000, no_fields, no_failure) == []
    assert evaluation("event.delay > 3", every=100).select(99, no_fields, no_failure) == []


def test_evaluation_when_it_resumes_then_it_counts_on_and_once_stays_once() -> None:
    looking = evaluation(once=True, every=3)
    looking.resume(looked=5, acted=0)
    assert looking.holds({})
    assert not any(looking.holds({}) for _ in range(6))


@pytest.mark.parametrize(("elapsed_s", "holds"), [(9.9, False), (10.0, True), (20.0, False)])
def test_elapsed_when_the_clock_goes_on_then_it_counts_since_the_rule_was_loaded(
    elapsed_s: float, holds: bool
) -> None:
    assert evaluation("elapsed_s >= 10 && elapsed_s < 20", elapsed_s=elapsed_s).holds({}) is holds


# What is refused


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("event.delay >", "line 1, column 14: mismatched input '<EOF>'"),
        ("event.delay >\n 3 3", "line 2, column 4"),
        ("", "line 1, column 1"),
        (
            'payload.startwith("x")',
            "line 1, column 9: there is no function `startwith`",
        ),
        ("count > 1 && evil(3) == 2", "line 1, column 14: there is no function `evil`"),
        ("cpu_percent(jfk) > 80.0", "line 1, column 1: `cpu_percent` takes the name of a scope"),
        ("count", "`count` is a value (1), not a condition"),
        ('"true"', "not a condition"),
        ('count > "a"', "cannot be computed"),
        ("elapsed_s + 1 > 3.0", "cannot be computed"),
        ('payload.matches("(")', "not a valid regex"),
    ],
)
def test_condition_when_it_cannot_be_meant_then_it_is_refused_with_the_place(text: str, says: str) -> None:
    with pytest.raises(TowpathError) as refused:
        compile_condition(text, "where.it.stands")
    detail = refused.value.detail
    assert says in detail.message
    assert detail.field == "where.it.stands"
    assert str(detail.value) in text
    assert detail.allowed


@pytest.mark.parametrize("how", [{"every": 0}, {"every": 1.5}, {"probability": 1.1}, {"probability": -0.1}])
def test_rule_when_a_field_of_its_choice_is_out_of_range_then_it_is_refused(how: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(how))):
        evaluation(**how)


# Values


def test_value_when_it_is_computed_then_it_has_the_kind_of_its_parts() -> None:
    assert compile_value("double(event.delay) / 1000.0").value(FIELDS) == 0.012
    assert compile_value("event.carrier + topic").value(FIELDS) == "UAdepartures"
    with pytest.raises(LookupError):
        compile_value("event.missing").value(FIELDS)


def test_expression_when_it_is_compiled_then_tells_its_names_and_figures() -> None:
    expression = compile_condition('event.legs.exists(x, x > serial) && cpu_percent("hub") > 1.0')
    assert expression.names == {"event", "serial"}
    assert expression.shared == {"cpu_percent(hub)"}
