"""The verdict, fault by fault."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from towpath.checker.comparison import equal
from towpath.checker.identity import (
    EventIdentity,
    Identity,
    SerialIdentity,
    Unreadable,
    ValuesIdentity,
    WindowIdentity,
    identity_by_event,
    identity_by_values,
    identity_of,
)
from towpath.checker.judging import judge
from towpath.checker.observation import ReceivedMessage, observe
from towpath.checker.report import as_json, as_table
from towpath.checker.verdict import Leniency, Verdict
from towpath.contracts.errors import TowpathError

T0 = datetime(2013, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def window_result(hour: int, carrier: str = "UA", **changes: Any) -> dict[str, Any]:
    """A result of a windowed job, as it is published."""
    start = T0 + hour * HOUR
    return {
        "job": "hourly",
        "site": "jfk",
        "epoch": 1,
        "serial": 100 + hour,
        "input": "jfk/site/departures",
        "stored_at": "2026-01-01T00:00:00Z",
        "window": {"start": start.isoformat(), "end": (start + HOUR).isoformat()},
        "key": {"carrier": carrier},
        "count": 3,
        "values": {"departures": 3, "mean_delay": 0.1 * hour},
    } | changes


RECEIVED = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + 0.5


def seen(body: dict[str, Any], **changes: Any) -> ReceivedMessage:
    arguments: dict[str, Any] = {"received_at": RECEIVED} | changes
    return observe(json.dumps(body).encode(), identity_of, **arguments)


RESULTS = [window_result(hour, carrier) for hour in range(5) for carrier in ("AA", "UA")]
EXPECTED = {identity_of(result): result["values"] for result in RESULTS}


def counts(verdict: Verdict) -> dict[str, int]:
    """The counts of faults and notices that are not zero."""
    names = ("lost", "duplicated", "wrong", "unexpected", "out_of_order", "late", "redelivered")
    return {name: getattr(verdict, name) for name in names if getattr(verdict, name)}


def test_verdict_when_exactly_the_expected_results_came_then_is_clean() -> None:
    verdict = judge(EXPECTED, map(seen, RESULTS), Leniency(late_after_s=1.0))
    assert verdict.clean
    assert counts(verdict) == {}
    assert (verdict.expected, verdict.results) == (10, 10)


def test_verdict_when_nothing_came_then_all_is_lost() -> None:
    verdict = judge(EXPECTED, [])
    assert counts(verdict) == {"lost": 10}
    assert not verdict.clean


def test_verdict_when_one_result_is_dropped_then_one_is_lost_and_named() -> None:
    verdict = judge(EXPECTED, map(seen, RESULTS[:3] + RESULTS[4:]))
    assert counts(verdict) == {"lost": 1}
    assert not verdict.clean
    assert "carrier='UA'" in verdict.examples["lost"][0]


def test_verdict_when_one_result_is_repeated_then_one_is_duplicated() -> None:
    verdict = judge(EXPECTED, map(seen, [*RESULTS, RESULTS[4]]))
    assert counts(verdict) == {"duplicated": 1}
    assert not verdict.clean


def test_verdict_when_a_value_is_altered_then_one_is_wrong_and_both_values_are_told() -> None:
    altered = window_result(2, values={"departures": 4, "mean_delay": 0.2})
    verdict = judge(EXPECTED, map(seen, [*RESULTS[:5], altered, *RESULTS[6:]]))
    assert counts(verdict) == {"wrong": 1}
    assert not verdict.clean
    assert "departures is 4, not 3" in verdict.examples["wrong"][0]


@pytest.mark.parametrize("values", [{"departures": 3}, {"departures": 3, "mean_delay": 0.0, "extra": 1}, {}])
def test_verdict_when_a_field_is_missing_or_additional_then_the_result_is_wrong(
    values: dict[str, Any],
) -> None:
    first = window_result(0, "AA", values=values)
    assert counts(judge(EXPECTED, map(seen, [first, *RESULTS[1:]]))) == {"wrong": 1}


def test_verdict_when_a_key_is_unknown_then_its_result_is_unexpected() -> None:
    verdict = judge(EXPECTED, map(seen, [*RESULTS, window_result(0, "~~")]))
    assert counts(verdict) == {"unexpected": 1}
    assert not verdict.clean


def test_verdict_when_two_windows_of_a_key_change_places_then_one_is_out_of_order() -> None:
    swapped = [RESULTS[2], RESULTS[1], RESULTS[0], *RESULTS[3:]]
    verdict = judge(EXPECTED, map(seen, swapped))
    assert counts(verdict) == {"out_of_order": 1}
    assert verdict.clean


def test_verdict_when_different_keys_interleave_then_nothing_is_out_of_order() -> None:
    by_key = [*RESULTS[0::2], *RESULTS[1::2]]
    assert counts(judge(EXPECTED, map(seen, by_key))) == {}


def test_verdict_when_a_result_is_delayed_then_it_is_late() -> None:
    observations = [seen(result) for result in RESULTS[:-1]] + [seen(RESULTS[-1], received_at=RECEIVED + 2)]
    verdict = judge(EXPECTED, observations, Leniency(late_after_s=1.0))
    assert counts(verdict) == {"late": 1}
    assert "2.500 s" in verdict.examples["late"][0]


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"7", b"{}", b'{"job":"hourly","serial":1}', b"\xff"])
def test_verdict_when_a_message_is_no_result_then_it_is_unexpected(payload: bytes) -> None:
    unreadable = observe(payload, identity_of, RECEIVED, topic="out")
    assert isinstance(unreadable.identity, Unreadable)
    assert counts(judge(EXPECTED, [*map(seen, RESULTS), unreadable])) == {"unexpected": 1}


def test_copy_when_it_comes_on_the_next_connection_then_is_redelivered() -> None:
    again = seen(RESULTS[-1], connection=2)
    verdict = judge(EXPECTED, [*map(seen, RESULTS), again])
    assert counts(verdict) == {"redelivered": 1}
    assert verdict.clean


@pytest.mark.parametrize(
    ("reason", "copy"),
    [
        ("same connection", seen(RESULTS[-1], connection=1)),
        ("another payload", seen(RESULTS[-1] | {"epoch": 2}, connection=2)),
        ("another subscriber", seen(RESULTS[-1], connection=2, subscriber="other")),
    ],
)
def test_copy_when_the_broker_had_no_cause_to_repeat_it_then_is_duplicated(
    reason: str, copy: ReceivedMessage
) -> None:
    assert counts(judge(EXPECTED, [*map(seen, RESULTS), copy])) == {"duplicated": 1}, reason


def test_copy_when_the_broker_says_that_it_has_sent_it_before_then_is_redelivered() -> None:
    again = [seen(RESULTS[0], dup=True), seen(RESULTS[0], dup=True)]
    assert counts(judge(EXPECTED, [*map(seen, RESULTS), *again])) == {"redelivered": 2}


def test_message_when_the_broker_says_so_but_nothing_came_before_then_is_the_first() -> None:
    observations = [seen(RESULTS[0], dup=True), *map(seen, RESULTS[1:])]
    assert counts(judge(EXPECTED, observations)) == {}


@pytest.mark.parametrize(
    ("reason", "copy"),
    [
        ("another payload", seen(RESULTS[-1] | {"epoch": 2}, dup=True)),
        ("another subscriber", seen(RESULTS[-1], subscriber="other", dup=True)),
    ],
)
def test_copy_when_it_is_not_what_the_broker_sent_before_then_is_duplicated_whatever_it_says(
    reason: str, copy: ReceivedMessage
) -> None:
    assert counts(judge(EXPECTED, [*map(seen, RESULTS), copy])) == {"duplicated": 1}, reason


def test_copy_when_too_many_messages_came_between_then_is_duplicated() -> None:
    observations = [*map(seen, RESULTS), seen(RESULTS[0], connection=2)]
    assert counts(judge(EXPECTED, observations, Leniency(redelivery_span=10))) == {"redelivered": 1}
    assert counts(judge(EXPECTED, observations, Leniency(redelivery_span=9))) == {"duplicated": 1}


def test_copies_when_a_third_connection_repeats_them_on_itself_then_are_duplicated_once() -> None:
    observations = [*map(seen, RESULTS), *(seen(RESULTS[-1], connection=3) for _ in range(2))]
    assert counts(judge(EXPECTED, observations)) == {"redelivered": 1, "duplicated": 1}


def test_redelivered_copy_when_wrong_or_unexpected_then_is_not_counted_again() -> None:
    wrong, stranger = window_result(4, values={"departures": 9}), window_result(0, "~~")
    observations = [seen(r) for r in [*RESULTS[:-1], wrong, stranger]]
    observations += [seen(r, connection=2) for r in (wrong, stranger)]
    assert counts(judge(EXPECTED, observations)) == {"wrong": 1, "unexpected": 1, "redelivered": 2}


def test_examples_when_faults_are_many_then_are_five() -> None:
    assert len(judge(EXPECTED, []).examples["lost"]) == 5


@pytest.mark.parametrize(
    ("body", "identity"),
    [
        (window_result(1), WindowIdentity("hourly", T0 + HOUR, T0 + 2 * HOUR, (("carrier", "UA"),))),
        (
            window_result(0, window={"start": "2013-01-01T00:00:00.000Z", "end": "2013-01-01T01:00:00"}),
            WindowIdentity("hourly", T0, T0 + HOUR, (("carrier", "UA"),)),
        ),
        (window_result(0, window=None), SerialIdentity("hourly", "jfk/site/departures", 100)),
    ],
)
def test_identity_when_taken_from_a_result_then_does_not_depend_on_how_times_are_written(
    body: dict[str, Any], identity: Identity
) -> None:
    assert identity_of(body) == identity


def test_identity_when_by_values_then_is_the_named_fields() -> None:
    body = window_result(0, window=None, values={"id": 7, "delay": 1.0})
    assert identity_by_values("id")(body) == ValuesIdentity("hourly", (("id", 7),))
    with pytest.raises(TowpathError):
        identity_by_values()


def test_rejected_event_when_observed_then_is_known_by_its_text() -> None:
    body = {
        "job": "clean",
        "serial": 4,
        "input": "jfk/site/departures",
        "stored_at": "2026-01-01T00:00:00Z",
        "reason": "carrier: missing",
        "event": '{"id":-1}',
    }
    observation = observe(json.dumps(body).encode(), identity_by_event, RECEIVED)
    assert observation.identity == EventIdentity('{"id":-1}')
    assert judge({observation.identity: {"event": '{"id":-1}'}}, [observation]).clean
    assert identity_of(body) == SerialIdentity("clean", "jfk/site/departures", 4)


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.0 + 1e-8, False),
        (0.0, 1e-13, True),
        (10**16, 10**16 + 1, False),
        (5.0, 5, True),
        (1, True, False),
        (float("nan"), None, True),
        (None, 0, False),
        ("1", 1, False),
        (T0, "2013-01-01T01:00:00+01:00", True),
        (T0, "2013-01-01T00:00:00.000001Z", False),
        (T0, "yesterday", False),
        ([1, 2], [1, 2], True),
    ],
)
def test_values_when_compared_then_agree_as_far_as_json_can_carry_them(
    expected: Any, actual: Any, same: bool
) -> None:
    assert equal(expected, actual, 1e-9) is same


def test_report_when_clean_or_not_then_says_so_with_an_example() -> None:
    bad = judge(EXPECTED, map(seen, RESULTS[1:]))
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(as_table(bad))
    text = console.export_text()
    assert "not clean: 1 lost" in text
    assert "carrier='AA'" in text
    document = json.loads(json.dumps(as_json(bad)))
    assert document["clean"] is False
    assert document["lost"] == 1
    assert document["examples"]["lost"]
    assert as_json(judge(EXPECTED, map(seen, RESULTS)))["clean"] is True
