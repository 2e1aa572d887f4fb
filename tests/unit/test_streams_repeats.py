"""Identities of events: what makes an event the repeat of an earlier one."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from towpath.contracts.data_plane import EVENT_ID_HEADER
from towpath.streams import repeats
from towpath.streams.passing import ChangedMessage
from towpath.streams.repeats import Repeats, repeats_of


def event(serial: int, body: bytes) -> ChangedMessage:
    return ChangedMessage(serial, "site.a", datetime(2026, 1, 1, tzinfo=UTC), body)


def first_ones(found: Repeats, *bodies: bytes) -> list[int]:
    events = [event(serial, body) for serial, body in enumerate(bodies, found.position + 1)]
    return [each.stream_sequence for each in found.first_ones(events)]


@pytest.mark.parametrize(
    "other",
    [
        b'{"class": "b", "id": 1}',
        b'{"class": "a", "id": 2}',
        b'{"class": "a", "id": "1"}',
        b'{"class": "a", "id": 1.0}',
        b'{"class": "a"}',
        b'{"class": "a", "id": null}',
        b'[{"class": "a", "id": 1}]',
        b'{"class": "a", "id": 1',
        b"\xff",
        b"",
    ],
)
def test_event_when_it_differs_in_a_field_or_has_not_all_of_them_then_it_repeats_nothing(
    other: bytes,
) -> None:
    one = b'{"class": "a", "id": 1}'

    assert first_ones(Repeats(["class", "id"], 10), one, other, other, one)[:2] == [1, 2]


@pytest.mark.parametrize(
    "other", [b'{"id": 1, "class": "a"}', b' {"class":"a","id":1,"sent_at":7}', b'{"class": "a", "id": 1}']
)
def test_event_when_the_fields_are_the_same_then_the_rest_of_it_does_not_count(other: bytes) -> None:
    assert first_ones(Repeats(["class", "id"], 10), b'{"class": "a", "id": 1}', other) == [1]


def test_identity_when_it_names_a_field_twice_then_that_counts_once() -> None:
    assert first_ones(Repeats(["id", "id"], 10), b'{"id": 1}', b'{"id": 2}', b'{"id": 1}') == [1, 2]


def named(serial: int, name: str, topic: str = "site.a", body: bytes = b"") -> ChangedMessage:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return ChangedMessage(serial, topic, at, body, {EVENT_ID_HEADER: name})


def test_event_when_its_device_names_it_then_only_name_and_topic_count() -> None:
    same, body = b'{"id": 1}', b"no JSON"
    events = [
        named(1, "a-1", body=same),
        named(2, "a-2", body=same),
        named(3, "a-1", body=body),
        named(4, "a-1", "site.b"),
        event(5, same),
    ]

    assert [each.stream_sequence for each in Repeats(["id"], 10).first_ones(events)] == [1, 2, 4, 5]


@pytest.mark.parametrize("bad", [b"rubbish", b'{"v": 1}', b'{"id": null}'])
def test_event_when_it_has_no_identity_then_none_repeats_it(bad: bytes) -> None:
    assert first_ones(Repeats(["id"], 10), bad, bad, bad) == [1, 2, 3]


def test_number_when_it_has_more_digits_than_a_double_then_all_of_them_count() -> None:
    bodies = [b'{"id": %d}' % (2**70 + n) for n in (0, 1, 0)]

    assert first_ones(Repeats(["id"], 10), *bodies) == [1, 2]


def test_repeat_when_it_repeats_a_repeat_then_is_passed_over_although_the_first_one_is_far() -> None:
    x, other = b'{"id": "x"}', b"{}"

    assert first_ones(Repeats(["id"], 3), x, other, other, x, other, other, x, other, other, other, x) == [
        1, 2, 3, 5, 6, 8, 9, 10, 11,
    ]  # fmt: skip


def test_memory_when_events_go_on_and_on_then_holds_hardly_more_than_it_needs() -> None:
    found = Repeats(["id"], 100)

    for start in range(0, 10_000, 10):
        first_ones(found, *(b'{"id": %d}' % (start + n) for n in range(10)))

    assert len(found._newest) <= 140


def test_memory_when_a_run_has_had_no_events_for_long_then_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock: list[Any] = [100.0]
    monkeypatch.setattr(repeats.time, "monotonic", lambda: clock[0])
    idle, busy = repeats_of("idle", ["id"], 10), repeats_of("busy", ["id"], 10)
    for clock[0] in (300.0, 500.0):
        assert repeats_of("busy", ["id"], 10) is busy
    assert repeats_of("idle", ["id"], 10) is not idle
