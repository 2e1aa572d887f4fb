"""The events of a stream that a job must accept, compared with the contract by hand."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.checker.accepted import StoredEvent, accepted_events
from towpath.contracts.operators import FieldType

FIELDS = {"k": FieldType.STRING, "v": FieldType.DOUBLE}


def stored(*events: dict[str, Any] | str) -> list[StoredEvent]:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return [StoredEvent(serial, text.encode()) for serial, text in enumerate(texts, 11)]


def test_device_events_when_they_do_not_fit_then_only_the_others_are_left_with_their_serials() -> None:
    events = stored(
        {"k": "a", "v": 1}, "rubbish", {"k": 5}, {"k": "b"}, {"v": 2}, {"k": None}, {"k": "c", "v": "1"}
    )
    frame = accepted_events(events, FIELDS, ["k"], from_device=True)
    assert list(frame.columns) == ["serial", "k", "v"]
    assert frame[["serial", "k"]].to_numpy().tolist() == [[11, "a"], [14, "b"]]
    assert frame["v"].isna().tolist() == [False, True]


def test_results_when_a_field_is_in_values_key_or_envelope_then_it_is_found_in_this_order() -> None:
    fields = {
        "k": FieldType.STRING,
        "v": FieldType.DOUBLE,
        "count": FieldType.LONG,
        "window_end": FieldType.TIMESTAMP,
    }
    window = {"start": "2026-01-01T00:00:00.000Z", "end": "2026-01-01T01:00:00.000Z"}
    events = stored(
        {"values": {"v": 2.5, "k": None}, "key": {"k": "a", "v": 9.0}, "count": 3, "window": window},
        {"values": 5},
        {"k": "a", "v": 1},
    )
    frame = accepted_events(events, fields, ["k"], from_device=False)
    assert frame.to_dict("records") == [
        {"serial": 11, "k": "a", "v": 2.5, "count": 3, "window_end": datetime(2026, 1, 1, 1, tzinfo=UTC)}
    ]


@pytest.mark.parametrize("from_device", [True, False])
def test_events_when_none_fits_then_the_table_is_empty_and_has_its_columns(from_device: bool) -> None:
    frame = accepted_events(stored("rubbish", "[]"), FIELDS, ["k"], from_device=from_device)
    assert (len(frame), list(frame.columns)) == (0, ["serial", "k", "v"])


@pytest.mark.parametrize(
    ("from_device", "serials"), [(True, [11, 12]), (False, [12])], ids=["device", "result"]
)
def test_events_when_no_fields_are_declared_then_every_object_is_accepted(
    from_device: bool, serials: list[int]
) -> None:
    frame = accepted_events(stored({}, {"values": {}}, "[]"), {}, [], from_device=from_device)
    assert frame["serial"].tolist() == serials
