"""The language of conditions: what each word means, and what is refused with its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pytest

from towpath.contracts.errors import TowpathError
from towpath.lab.faults.conditions import (
    FUNCTIONS,
    Counters,
    Evaluation,
    compile_condition,
    compile_value,
)

LOADED_AT = 1_000.0


class Clock:
    def __init__(self) -> None:
        self.elapsed = 0.0

    def __call__(self) -> float:
        return LOADED_AT + self.elapsed


def started(text: str, *, seed: int = 1, **how: Any) -> Evaluation:
    return compile_condition(text).start(seed=seed, loaded_at=LOADED_AT, **how)


def holds(text: str, fields: Mapping[str, Any] | None = None, **how: Any) -> bool:
    return started(text, **how).holds(fields or {})


def event(**content: Any) -> dict[str, Any]:
    return {"payload": json.dumps(content).encode()}


def no_fields(place: int) -> Mapping[str, Any]:
    raise AssertionError(f"nobody needs the fields at {place}")


# Which time it is


def test_every_when_occurrences_come_in_bundles_then_it_counts_across_them() -> None:
    evaluation = started("every 1000")
    assert evaluation.select(999, no_fields) == []
    assert evaluation.select(2, no_fields) == [0]
    assert evaluation.select(2500, no_fields) == [998, 1998]
    assert evaluation.looked == 3501
    assert evaluation.acted == 3


def test_once_when_it_has_acted_then_never_again() -> None:
    evaluation = started('payload contains "x" and once')
    seen = [evaluation.holds({"payload": payload}) for payload in (b"a", b"x", b"x")]
    assert seen == [False, True, False]


def test_first_when_everything_else_holds_then_so_many_times() -> None:
    evaluation = started("every 10 and first 3")
    assert evaluation.select(25, no_fields) == [9, 19]
    assert evaluation.select(25, no_fields) == [4]
    assert evaluation.select(25, no_fields) == []


@pytest.mark.parametrize(
    ("text", "moments"),
    [
        ("after 1500ms", {0: False, 1.4: False, 1.5: True, 100: True}),
        ("before 2m", {0: True, 119.9: True, 120: False}),
        ("between 10s and 20s", {9.9: False, 10: True, 19.9: True, 20: False}),
    ],
)
def test_times_when_the_clock_goes_on_then_they_count_since_the_rule_was_loaded(
    text: str, moments: dict[float, bool]
) -> None:
    clock = Clock()
    evaluation = started(text, clock=clock)
    for clock.elapsed, expected in moments.items():
        assert evaluation.holds({}) is expected
        assert evaluation.select(2, no_fields) == ([0, 1] if expected else [])


def test_probability_when_the_seed_is_the_same_then_the_choices_are_whatever_the_bundles() -> None:
    at_once = started("probability 0.01", seed=7).select(100_000, no_fields)
    in_bundles = started("probability 0.01", seed=7)
    bundled = [
        start + place for start in range(0, 100_000, 250) for place in in_bundles.select(250, no_fields)
    ]
    assert at_once == bundled
    assert 850 <= len(at_once) <= 1150
    assert started("probability 0.01", seed=8).select(100_000, no_fields) != at_once


def test_probability_when_it_is_one_or_zero_then_always_or_never() -> None:
    assert started("probability 1").select(3, no_fields) == [0, 1, 2]
    assert started("probability 0").select(1_000_000, no_fields) == []
    assert started("probability 1e-300").select(1_000_000, no_fields) == []


def test_two_probabilities_when_in_one_rule_then_they_choose_independently() -> None:
    both = started("probability 0.5 and probability 0.5").select(10_000, no_fields)
    assert 2_200 <= len(both) <= 2_800


# What is there


@pytest.mark.parametrize(
    "text",
    [
        "event.delay == 12",
        "event.delay + 3 * 2 - 8 / 4 == 16",
        "event.delay % 5 == 2 and not event.delay > 12",
        "-event.delay < -11.5",
        'event.carrier in ["AA", "UA"] and event.carrier not in ["DL"]',
        'event.flight.number == 7 and event["flight"]["number"] == 7',
        "event.legs[0] == 1 and event.legs[-1] == 3",
        "event.legs contains 2 and event.legs == [1, 2, 3]",
        'event contains "delay"',
        'payload startswith "{" and payload endswith "}" and payload contains "UA"',
        r'payload matches "\d{2}" and not (payload matches "^x+$")',
        "event.cancelled",
        "event.cancelled == true and event.cancelled != 1",
        "event.missing == null and event.missing.deeper[3] == null",
        "not (event.missing > 0) and not (event.missing < 0)",
        "len(event.carrier) == 2 and len(event.legs) == 3 and len(payload) > 50",
        'lower(event.carrier) == "ua" and abs(-event.delay) == 12',
        "min(event.legs) == 1 and max(1, event.delay, 5) == 12",
        'number("1.5") == 1.5 and number("x") == null',
        'topic == "flights/ua" and topic startswith "flights/"',
        "1 / 0 == null and event.carrier + 1 == null",
        'hash("a") == 3904355907 and hash(event.delay) == hash("12")',
        'event["_id"] == 5',
    ],
)
def test_condition_when_it_is_about_fields_then_it_holds(text: str) -> None:
    fields = {
        "topic": "flights/ua",
        **event(delay=12, carrier="UA", flight={"number": 7}, legs=[1, 2, 3], cancelled=True, **{"_id": 5}),
    }
    assert holds(text, fields)
    assert not holds(f"not ({text})", fields)


def test_precedence_when_and_or_and_not_are_mixed_then_not_binds_before_and_before_or() -> None:
    assert holds("true or false and false")
    assert holds("not false and true")
    assert not holds("(true or false) and false")


@pytest.mark.parametrize("payload", [b"", b"\xff\xfe", b"{", b"[" * 100_000, None, 17, b'{"delay": NaN}'])
def test_event_when_the_payload_is_no_json_then_it_is_null_and_nothing_fails(payload: Any) -> None:
    assert not holds("event.delay > 5 or event.delay < 5 or event.delay == 5", {"payload": payload})


def test_event_when_no_part_needs_it_then_payloads_are_not_read() -> None:
    evaluation = started("every 3 and event.delay > 5")
    asked: list[int] = []

    def fields(place: int) -> Mapping[str, Any]:
        asked.append(place)
        return event(delay=place * 2)

    assert evaluation.select(7, fields) == [5]
    assert asked == [2, 5]


def test_count_and_acted_when_named_then_they_say_where_the_rule_stands() -> None:
    evaluation = started("count % 2 == 0 and acted < 2")
    assert evaluation.select(10, lambda place: {}) == [1, 3]


def test_counter_when_it_stands_behind_a_test_then_it_counts_what_passes_it() -> None:
    evaluation = started('payload startswith "t" and counter("t") % 2 == 0')
    payloads = [b"t1", b"x", b"t2", b"t3", b"x", b"t4"]
    assert evaluation.select(6, lambda place: {"payload": payloads[place]}) == [2, 5]


def test_counters_when_rules_share_them_then_both_count() -> None:
    counters = Counters()
    one, other = (started('counter("both") > 2', counters=counters) for _ in range(2))
    assert [one.holds({}), other.holds({}), one.holds({})] == [False, False, True]


def test_shared_values_when_named_by_scope_then_asked_by_it_and_unknown_ones_do_not_hold() -> None:
    measured = {"cpu_percent(jfk)": 90.0, "memory_percent(new-york)": 40.0}
    shared: Callable[[str], float | None] = measured.get
    assert holds("cpu_percent(jfk) > 80", shared=shared)
    assert holds("cpu_percent(site) > 80", {"site": "jfk"}, shared=shared)
    assert holds('memory_percent("new-york") < 50', shared=shared)
    assert not holds("cpu_percent(site) > 80 or cpu_percent(site) <= 80", {"site": "lga"}, shared=shared)
    condition = compile_condition("cpu_percent(site) > 80 and memory_percent(lga) > 1")
    assert condition.shared == {"cpu_percent(site)", "memory_percent(lga)"}
    assert condition.names == {"site"}


class Kind(StrEnum):
    COPY = "copy"


@dataclass
class Command:
    job: str
    kind: Kind = Kind.COPY
    _secret: str = "s"

    @property
    def size(self) -> int:
        return 3

    @property
    def broken(self) -> int:
        raise RuntimeError("broken")

    def explode(self) -> None:
        raise AssertionError("a condition called a method")


def test_args_when_they_are_objects_then_attributes_are_seen_and_methods_and_private_ones_are_not() -> None:
    fields = {"args": {"command": Command("delays")}}
    assert holds('args.command.job == "delays" and args.command.kind == "copy"', fields)
    assert holds("args.command.size == 3 and args.command.broken == null", fields)
    assert holds('args.command.explode == null and args.command["_secret"] == null', fields)
    assert holds('args.command["__class__"] == null', fields)
    assert not holds("args.command == args.command", fields)


# Whole bundles


def test_select_when_columns_are_given_then_fields_are_not_asked_for() -> None:
    payloads = [b'{"n": 0}', b"zz", b"a zz", b'{"n": 3}']

    def columns(name: str) -> Sequence[Any] | None:
        return payloads if name == "payload" else None

    for text, places in {
        'payload startswith "zz"': [1],
        'payload endswith "zz"': [1, 2],
        'payload contains "zz"': [1, 2],
        'payload matches "^z+$"': [1],
        'payload == "zz"': [1],
        'payload != "zz"': [0, 2, 3],
        "event.n >= 0": [0, 3],
        'every 2 and payload contains "zz"': [1],
        'payload contains "zz" or event.n == 3': [1, 2, 3],
        'not (payload contains "zz") and len(payload) > 3': [0, 3],
    }.items():
        assert started(text).select(4, no_fields, columns) == places, text


def test_select_when_a_column_holds_more_than_texts_then_it_still_holds_where_it_should() -> None:
    column = [b"zz", ["zz"], None, "zz", 3, bytearray(b"zz")]
    for operator in ("startswith", "endswith"):
        places = started(f'payload {operator} "zz"').select(6, no_fields, lambda name: column)
        assert places == [0, 3, 5]
    assert started('payload contains "zz"').select(6, no_fields, lambda name: column) == [0, 1, 3, 5]


def test_evaluation_when_threads_share_it_then_none_of_what_they_look_at_is_counted_twice() -> None:
    evaluation = started("every 10")
    with ThreadPoolExecutor(8) as threads:
        hits = threads.map(lambda _: len(evaluation.select(7, no_fields)), range(1_000))
        single = threads.map(lambda _: evaluation.holds({}), range(3_000))
        assert sum(hits) + sum(single) == 1_000
    assert evaluation.looked == 10_000


def test_select_when_fields_fail_then_the_next_bundle_is_counted_on() -> None:
    evaluation = started("count == 4 and topic == null")

    def failing(place: int) -> Mapping[str, Any]:
        raise LookupError(place)

    with pytest.raises(LookupError):
        evaluation.select(3, failing)
    assert evaluation.select(3, lambda place: {}) == [0]


# What is refused


@pytest.mark.parametrize(
    ("text", "says", "allowed"),
    [
        (
            'payload startwith "zz"',
            "line 1, column 9: `startwith` cannot stand here; did you mean",
            "matches",
        ),
        ("evry 10", "line 1, column 6: `10` cannot stand here; did you mean `every`?", None),
        ("every 1.5", "line 1, column 7: 1.5 is no number of times in: every ^1.5", "whole numbers from 1"),
        ("every 0", "column 7: 0 is no number of times", None),
        ("probability 2", "column 13: 2 is no probability", "0 to 1"),
        ("true and\n  x >> 3", "line 2, column 6: `>` cannot stand here", None),
        ("(event.x > 3", "column 13: something is missing", ")"),
        ("", "column 1: something is missing", "every"),
        ('payload == "zz', "a text whose quotes do not close", None),
        ("after 30", "`30` cannot stand here", "a time such as 30s (ms, s, m, h)"),
        ("between 20s and 10s", "ends before it begins", "more than 20s"),
        ("lenn(payload) > 3", "there is no function `lenn`; did you mean `len`?", "len"),
        ("len() > 3", "len has 0 arguments", "1 of them"),
        ('__import__("os") == 1', "there is no function `__import__`", None),
        ("args.self.__class__ == 1", "`__class__` is private", None),
        ("_private == 1", "`_private` is no name", None),
        ("x == every", "`every` is no name", None),
        ("len(payload)", "`len(payload)` is a value, not a condition", None),
        ("(every 3) == true", "`every 3` is a condition, not a value", None),
        ("not once", "`once` never holds when negated", "count > 1"),
        ('payload matches "(a"', "not a regular expression: missing )", None),
        ("payload matches topic", "`matches` has no such pattern", None),
        ("cpu_percent(new-york) > 3", "cpu_percent asks about one scope", None),
        ("not " * 400 + "true", "is nested too deeply", None),
        ("x == 1 and " * 200 + "true", "has 2204 characters", "at most 2000 characters"),
        ("9" * 30 + " > 1", "is too large", "integers below 2^63"),
        (r'payload == "\ud800"', "half a character", None),
    ],
)
def test_condition_when_it_is_wrong_then_the_error_names_place_and_what_is_allowed(
    text: str, says: str, allowed: str | None
) -> None:
    with pytest.raises(TowpathError) as raised:
        compile_condition(text)
    detail = raised.value.detail
    assert says in detail.message
    assert "\n" not in detail.message
    assert detail.field == "condition"
    assert str(detail.value).startswith(text[:200])
    if allowed is not None:
        assert detail.allowed == allowed or allowed in (detail.allowed or [])


def test_value_when_it_is_an_expression_then_it_is_computed_from_fields() -> None:
    fields = {**event(delay=12), "took_s": 0.25, "count": 3}
    assert compile_value("event.delay * 60")(fields) == 720
    assert compile_value("took_s")(fields) == 0.25
    assert compile_value("count")(fields) == 3
    assert compile_value("event.delay > 5")(fields) is True
    assert compile_value("event.delay").names == {"event"}


@pytest.mark.parametrize("text", ["every 3", 'counter("x")', "1 +"])
def test_value_when_it_is_none_then_it_is_refused(text: str) -> None:
    with pytest.raises(TowpathError) as raised:
        compile_value(text)
    assert raised.value.detail.field == "value"


def test_describe_when_a_condition_is_read_then_people_can_read_it() -> None:
    described = compile_condition(
        'every 1000 and (payload startswith "t_p" or once) and after 30s'
    ).describe()
    assert described == (
        "it is the 1,000th time, the 2,000th, and so on, and "
        '(payload starts with "t_p", or the rule has not acted yet), and '
        "the rule was loaded at least 30 s ago"
    )


def test_reference_when_it_names_functions_then_each_of_them_is_understood() -> None:
    for written in FUNCTIONS:
        name, _, rest = written.partition("(")
        if rest and name.isidentifier():
            argument = '"x"' if name == "counter" else "jfk" if "scope" in rest else "event"
            compile_condition(f"{name}({argument}) == 1")
