"""Events as a plan gets them: typed or whole, with the reason where one does not fit."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.streams.decoding import decoder_of
from towpath.streams.event_times import micros_of, times_of
from towpath.streams.reading import (
    COUNT,
    INPUT,
    KEY,
    REASON,
    SERIAL,
    STORED_AT,
    TEXT,
    VALUES,
    WINDOW,
    Reading,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
NO_LONG = "field 'n': expected an integer of at most 64 bits"
ENVELOPE = {"job": "up", "serial": 7, "count": 12, "key": {"carrier": "AA"}, "values": {"delay": 1.5}}


def decoded(reading: Reading, *events: Any) -> list[dict[str, Any]]:
    """Return the events as rows, without what the source itself knows of them."""
    texts = [event if isinstance(event, bytes) else json.dumps(event).encode() for event in events]
    rows = decoder_of(reading).batch(range(1, len(texts) + 1), [AT] * len(texts), texts).to_pylist()
    assert [(row.pop(SERIAL), row.pop(INPUT), row.pop(STORED_AT)) for row in rows] == [
        (n, reading.position, AT) for n in range(1, len(texts) + 1)
    ]
    return rows


def test_reading_when_it_travels_as_options_then_comes_back_as_it_was() -> None:
    reading = Reading({"a": "long"}, from_device=False, position=1, required=("a",), keeps_text=True)
    assert Reading.of(reading.options()) == reading


def test_typed_event_when_it_fits_then_has_its_fields_and_no_text() -> None:
    reading = Reading({"from": "string", "n": "long", "at": "timestamp"}, from_device=True, position=1)
    (row,) = decoded(reading, {"from": "x", "n": 5, "at": "2026-01-01T01:00:00+01:00", "more": [1]})
    assert row == {"from": "x", "n": 5, "at": AT, REASON: None, TEXT: None}


def test_typed_event_when_it_has_another_form_then_is_judged_by_what_it_says_in_json() -> None:
    form = {"kind": "csv", "delimiter": ";", "columns": {"n": "long", "s": "string"}}
    reading = Reading({"s": "string", "n": "long"}, from_device=True, required=("s",), form=form)
    good, short, lacking, bad = decoded(reading, b"5;x", b"5", b"5;", b"\xff;x")
    assert good == {"s": "x", "n": 5, REASON: None, TEXT: None}
    assert (short["n"], short[REASON], short[TEXT]) == (None, "expected 2 values, got 1", "5")
    assert (lacking[REASON], lacking[TEXT]) == ("field 's': missing or null", '{"n":5}')
    assert (bad[REASON], bad[TEXT]) == ("not UTF-8", "\ufffd;x")


def test_whole_event_when_it_has_another_form_then_goes_on_as_json() -> None:
    form = {"kind": "binary", "layout": "<Bf", "columns": ["n", "x"]}
    good, short = decoded(Reading(None, from_device=True, form=form), b"\x07\x00\x00\x00\x3f", b"\x07")
    assert (good[VALUES], good[REASON]) == ('{"n":7,"x":0.5}', None)
    assert short[REASON] == "expected 5 bytes, got 1"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (b'{"n":1.0}', f"{NO_LONG}, got 1.0"),
        (b'{"n":-9223372036854775809}', f"{NO_LONG}, got -9223372036854775809"),
        (b'{"n":"1"}', f'{NO_LONG}, got "1"'),
        (b'{"d":1e400}', "field 'd': expected a finite number, got 1e400"),
        (b'{"s":5,"n":"x"}', "field 's': expected a string, got 5"),
        (b'{"s":"\\ud800"}', "not a JSON object"),
        (b'{"b":1}', "field 'b': expected true or false, got 1"),
        (b'{"at":"12:30"}', "field 'at': expected an ISO 8601 time, got \"12:30\""),
        (b'{"at":"2026-02-30"}', "field 'at': expected an ISO 8601 time, got \"2026-02-30\""),
        (b'{"s":"\xff"}', "not UTF-8"),
        (b'{"other":"\xff"}', "not UTF-8"),
        (b'{"s":"x"', "not a JSON object"),
        (b'{"s":"x"} {}', "not a JSON object"),
        (b'{"other":' + b"[" * 10_000 + b"]" * 10_000 + b"}", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"", "not a JSON object"),
    ],
)  # fmt: skip
def test_typed_event_when_it_does_not_fit_then_has_a_reason_its_text_and_no_fields(
    event: bytes, reason: str
) -> None:
    fields = {"s": "string", "n": "long", "d": "double", "b": "boolean", "at": "timestamp"}
    good, bad = decoded(Reading(fields, from_device=True), {"n": 1}, event)
    assert (good["n"], good[REASON], good[TEXT]) == (1, None, None)
    assert (bad[REASON], bad[TEXT]) == (reason, event.decode(errors="replace"))
    assert all(bad[name] is None for name in fields if name != "at")


def test_typed_event_when_a_field_is_required_then_lacking_it_is_a_reason_behind_those_of_types() -> None:
    reading = Reading({"k": "string", "at": "timestamp"}, from_device=True, required=("k", "at"))
    rows = decoded(reading, {}, {"k": "x", "at": None}, {"k": "x", "at": "2026-01-01"}, {"at": 5})
    assert [row[REASON] for row in rows] == [
        "field 'k': missing or null",
        "field 'at': missing or null",
        None,
        "field 'at': expected an ISO 8601 time, got 5",
    ]


def test_typed_event_of_a_job_when_looked_up_then_values_come_before_key_and_envelope() -> None:
    fields = {"delay": "double", "carrier": "string", "count": "long", "window_end": "timestamp"}
    bounds = {"start": "2025-12-31T23:00:00.000Z", "end": "2026-01-01T00:00:00.000Z"}
    rows = decoded(
        Reading(fields, from_device=False),
        {**ENVELOPE, "window": bounds},
        {**ENVELOPE, "values": {"count": 3, "carrier": "UA"}, "window": None},
        {**ENVELOPE, "key": {"carrier": "AA", "delay": "of no interest"}},
        {**ENVELOPE, "key": {"carrier": 5}},
        {"values": {}, "window": {"end": 5}},
        {"values": []},
        b'{"values":{},"job":"\xff"}',
    )
    found = [[row[name] for name in fields] for row in rows[:3]]
    assert found == [[1.5, "AA", 12, AT], [None, "UA", 3, None], [1.5, "AA", 12, None]]
    assert [row[REASON] for row in rows[3:]] == [
        "field 'carrier': expected a string, got 5",
        "field 'window_end': expected an ISO 8601 time, got 5",
        "field 'values': expected an object, as in every job's result",
        "not UTF-8",
    ]


def test_events_when_the_plan_judges_them_too_then_keep_their_text() -> None:
    reading = Reading({"n": "long"}, from_device=True, keeps_text=True)
    assert [row[TEXT] for row in decoded(reading, b'{"n": 1}', b"x")] == ['{"n": 1}', "x"]


def test_whole_event_when_it_comes_from_a_device_then_its_text_is_unchanged() -> None:
    text = b'{"big":123456789012345678901234567890,"e":1e400,"o":{"z":[1.10,null]}}'
    (row,) = decoded(Reading(None, from_device=True), b" " + text + b"\n")
    assert row == {VALUES: text.decode(), KEY: None, WINDOW: None, COUNT: 1, REASON: None, TEXT: None}


def test_whole_event_when_it_is_a_result_then_its_parts_are_unchanged() -> None:
    reading = Reading(None, from_device=False)
    whole = b'{"job":"up","count":3,"window":null,"key":{"k":"}"},"values":{"x":1.10}}'
    rows = decoded(reading, whole, b'{"values":{}}', b'{"values":1}', b'{"values":{},"key":[]}',
                   b'{"values":{},"count":-1}', b'{"a":1}', b"[")  # fmt: skip
    assert [(row[VALUES], row[KEY], row[WINDOW], row[COUNT]) for row in rows[:2]] == [
        ('{"x":1.10}', '{"k":"}"}', None, 3),
        ("{}", None, None, 1),
    ]
    assert [row[REASON] for row in rows[2:]] == [
        "field 'values': expected an object, as in every job's result",
        "field 'key': expected an object, as in every job's result",
        "field 'count': expected a whole number",
        "field 'values': expected an object, as in every job's result",
        "not a JSON object",
    ]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-01-01", 0.0),
        ("2026-01-01 10", 36_000.0),
        ("2026-01-01 1:2", 3720.0),
        ("2026-01-01T00:00:05", 5.0),
        ("2026-01-01T00:00:05.1234567Z", 5.123456),
        ("2026-01-01T02:00:00+02:00", 0.0),
        ("2026-01-01T02:00:00 +0200", 0.0),
        ("2025-12-31T16:00:00-8", 0.0),
        ("2026-01-01T00:00:00 UTC", 0.0),
        ("2026-01-01T01:00:00 Europe/Berlin", 0.0),
    ],
)
def test_time_when_it_is_iso_8601_then_is_read_as_spark_casts_it(text: str, seconds: float) -> None:
    micros = round((AT.timestamp() + seconds) * 1e6)
    assert micros_of(text) == micros
    assert times_of([text, None]).cast("int64").to_pylist() == [micros, None]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "soon",
        "12:30",
        "2026",
        "2026-13-01",
        "2026-01-01T",
        "2026-01-01T25:00",
        "2026-01-01T10Z",
        "2026-01-01T10:20Z",
        "2026-01-01Z",
        "2026-01-01T00:00:00Nowhere",
        "2026-01-01T00:00:00+19:00",
    ],
)
def test_time_when_it_is_none_then_is_null(text: str) -> None:
    assert micros_of(text) is None
    assert times_of([text, "2026-01-01"]).null_count == 1
    assert times_of([text]).null_count == 1
