"""A column's JSON is that of its values, one by one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from towpath.streams.json_texts import encode, json_objects, json_texts
from towpath.streams.plain_values import plain_values

AT = datetime(2026, 1, 1, 12, 0, 0, 123456, UTC)
COLUMNS: dict[str, pa.Array] = {
    "numbers": pa.array([1.0, -0.0, 1e300, 0.1, 12345678901.25, None]),
    "numbers that JSON cannot write": pa.array([1.0, float("nan"), float("inf"), None]),
    "whole numbers": pa.array([0, -(2**63), 2**63 - 1, None]),
    "no rows": pa.array([], pa.int64()),
    "texts": pa.array(["a", 'a "quoted", text', "ä\n", "a", None]),
    "truths": pa.array([True, False, None]),
    "times": pa.array([AT, None], pa.timestamp("us", tz="UTC")),
    "local times": pa.array([AT.replace(tzinfo=None)], pa.timestamp("us")),
    "days": pa.array([date(2026, 1, 1), None]),
    "decimals": pa.array([Decimal("1.10"), None]),
    "lists": pa.array([[1, 2], [], None]),
    "structs": pa.array([{"a": 1, "b": None}, {"a": None, "b": "x"}, None]),
    "nested structs": pa.array([{"a": {"b": 1.5}}, {"a": None}]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_column_when_written_then_is_the_json_of_its_values(kind: str) -> None:
    column = COLUMNS[kind]

    texts = json_texts(column)

    assert texts == [None if value is None else encode(value) for value in plain_values(column)]


def test_objects_when_members_are_null_then_lack_them() -> None:
    columns: dict[str, Any] = {"a": [b"1", None, None], 'the "b"': [b"true", b"null", None]}

    objects = json_objects(columns)

    assert [msgspec.json.decode(each) for each in objects] == [
        {"a": 1, 'the "b"': True},
        {'the "b"': None},
        {},
    ]
