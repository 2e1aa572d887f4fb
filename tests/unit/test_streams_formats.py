"""Events of other forms than JSON: what they say, and the reasons of those that cannot be read."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from towpath.contracts.event_formats import EventFormat
from towpath.contracts.job import Input
from towpath.streams.formats import Unreadable, to_json

CSV = {
    "kind": "csv",
    "columns": {"carriage": "string", "axle": "long", "class": "double", "ok": "boolean", "at": "timestamp"},
}
BINARY = {"kind": "binary", "layout": "<H4s2f", "columns": ["axle", "carriage", "x", "y"]}


def form(body: dict[str, Any]) -> dict[str, Any]:
    """Return a form as a source gets it: checked, with its defaults."""
    return TypeAdapter(EventFormat).validate_python(body).model_dump(mode="json")


def said(body: dict[str, Any], event: bytes) -> dict[str, Any]:
    return json.loads(to_json(form(body))(event))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"c-7,3,0.5,true,2026-01-01T00:00:00Z\n",
            {"carriage": "c-7", "axle": 3, "class": 0.5, "ok": True, "at": "2026-01-01T00:00:00Z"},
        ),
        (b"c-7,,-1e3,,\r\n", {"carriage": "c-7", "class": -1000.0}),
        (b'"c,""7""",3,1,false,', {"carriage": 'c,"7"', "axle": 3, "class": 1.0, "ok": False}),
    ],
)
def test_line_of_values_when_it_has_the_columns_then_says_their_fields(
    line: bytes, expected: dict[str, Any]
) -> None:
    assert said(CSV, line) == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"c-7,3", "expected 5 values, got 2"),
        (b"", "expected 5 values, got 1"),
        (b"c-7,three,1,,", "field 'axle': expected `int | null`, got `str`"),
        (b"c-7,3,high,,", "field 'class': expected `float | null`, got `str`"),
        (b'"c-7,3,1,,', "not CSV: unexpected end of data"),
        (b"\xff,3,1,,", "not UTF-8"),
    ],
)
def test_line_of_values_when_it_has_others_then_the_reason_names_them(line: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=f"^{reason.replace('|', '[|]')}"):
        said(CSV, line)


def test_packed_event_when_it_has_the_length_then_says_its_values() -> None:
    event = struct.pack("<H4s2f", 3, b"c7", 0.5, -1.5)

    assert said(BINARY, event) == {"axle": 3, "carriage": "c7", "x": 0.5, "y": -1.5}
    with pytest.raises(Unreadable, match="expected 14 bytes, got 13"):
        said(BINARY, event[:-1])


def test_senml_pack_when_read_then_base_values_and_times_count() -> None:
    pack = [
        {
            "bn": "urn:dev:ow:10e2",
            "bt": 1.276020076e9,
            "bu": "A",
            "bv": 20,
            "n": "voltage",
            "u": "V",
            "v": 120.5,
        },
        {"n": "cur-rent/1", "t": 5, "v": 1.5},
        {"n": "open", "vb": False},
        {"n": "label", "vs": "a"},
    ]

    assert said({"kind": "senml"}, json.dumps(pack).encode()) == {
        "device": "urn:dev:ow:10e2",
        "time": "2010-06-08T18:01:21+00:00",
        "voltage": 140.5,
        "cur_rent_1": 21.5,
        "open": False,
        "label": "a",
    }


@pytest.mark.parametrize("pack", [b"{}", b"[1]", b'[{"n": "a", "v": "high"}]', b"[", b"\xff"])
def test_senml_pack_when_it_is_none_then_has_a_reason(pack: bytes) -> None:
    with pytest.raises(Unreadable, match="no SenML pack"):
        said({"kind": "senml"}, pack)


@pytest.mark.parametrize("time", ['"t": 1.7e12', '"t": 1e20', '"bt": 1.7e308, "t": 1.7e308'])
def test_senml_pack_when_its_time_is_no_date_then_has_a_reason(time: str) -> None:
    with pytest.raises(Unreadable, match="no time in seconds"):
        said({"kind": "senml"}, f'[{{"n": "a", "v": 1, {time}}}]'.encode())


@pytest.mark.parametrize(
    ("pack", "why"),
    [
        ([{"n": "a", "v": 1}, {"n": "a", "v": 2}], "two values of 'a'"),
        ([{"n": "1", "v": 1}, {"n": "1", "v": 2}], "two values of '_1'"),
        ([{"bn": "a/", "n": "x", "v": 1}, {"bn": "b/", "n": "y", "v": 2}], "two devices"),
        ([{"bn": "a/", "n": "device", "v": 1}], "the name 'device'"),
        ([{"n": "x", "v": 10**400, "bv": 0.5}], "too large"),
    ],
)
def test_senml_pack_when_its_values_would_be_mixed_up_then_has_a_reason(pack: list[Any], why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        said({"kind": "senml"}, json.dumps(pack).encode())


def test_senml_pack_when_a_base_is_set_back_to_zero_then_is_zero_from_there_on() -> None:
    pack = [
        {"bn": "a", "bt": 1.7e9, "bv": 20, "n": "t", "v": 1},
        {"bt": 0, "bv": 0, "n": "h", "t": 1.8e9, "v": 50},
        {"bs": 100, "n": "water", "s": 5},
    ]
    assert said({"kind": "senml"}, json.dumps(pack).encode()) == {
        "device": "a",
        "time": "2027-01-15T08:00:00+00:00",
        "t": 21,
        "h": 50,
        "water": 105,
    }


@pytest.mark.parametrize("number", [21, 9007199254740993])
def test_senml_pack_when_a_value_is_whole_then_stays_whole(number: int) -> None:
    pack = json.dumps([{"n": "c", "v": number}]).encode()
    assert to_json({"kind": "senml"})(pack) == b'{"c":%d}' % number


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"kind": "binary", "layout": "<2h", "columns": ["x"]}, "the layout has 2 values"),
        ({"kind": "binary", "layout": "2h", "columns": ["x", "y"]}, "begin with <"),
        ({"kind": "binary", "layout": "<k", "columns": ["x"]}, "no layout"),
        ({"kind": "binary", "layout": "<2h", "columns": ["x", "x"]}, "two columns have one name"),
        ({"kind": "csv", "columns": {}}, "at least 1"),
        ({"kind": "csv", "columns": {"x": "double"}, "delimiter": ",,"}, "at most 1"),
    ],
)
def test_format_when_it_contradicts_itself_then_is_refused(body: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Input.model_validate({"site": "jfk", "topic": "site/axles", "format": body})


def test_format_when_the_input_is_the_output_of_a_job_then_is_refused() -> None:
    with pytest.raises(ValidationError, match="results of jobs have one form"):
        Input.model_validate({"site": "jfk", "topic": "clean/axles", "format": {"kind": "senml"}})
