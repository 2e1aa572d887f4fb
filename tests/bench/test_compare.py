"""Tests of loss, lateness and keeping up in the comparison of engines. Run with `pytest tests/bench`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from compare_judging import (
    ALLOWED_S,
    Account,
    Result,
    account,
    falls_behind,
    median_latency_s,
    overdue_s,
    result_of,
)

TOWPATH = b'{"window":{"start":"2026-01-01T00:00:05.000000Z"},"key":{"sensor":"s00007"},"count":3}'
OTHER = b'{"start":"2026-01-01T00:00:05","sensor":"s00007","count":3}'
WITH_A_BLANK = b'{"start":"2026-01-01 00:00:05","sensor":"s00007","count":3}'
WITH_A_ZONE = b'{"start":"2026-01-01T00:00:05+00:00","sensor":"s00007","count":3}'

EXACT = Account(sent=10, lost=0, surplus=0, repeated=0)


def result(start: float, count: int = 1, sensor: str = "s00001", received_at: float = 0.0) -> Result:
    return Result(received_at, start, sensor, count)


@pytest.mark.parametrize("payload", [TOWPATH, OTHER, WITH_A_BLANK, WITH_A_ZONE])
def test_result_when_any_engine_wrote_it_then_it_is_the_same(payload):
    assert result_of(payload, 9.0) == Result(9.0, 1_767_225_605.0, "s00007", 3)


def test_account_when_every_event_is_counted_once_then_it_is_exact():
    results = [result(10, 2), result(10, 1, "s00002"), result(11, 3)]

    assert account(results, since=10, until=12, sent=6) == Account(6, lost=0, surplus=0, repeated=0)


def test_account_when_counts_are_short_then_the_difference_is_lost():
    found = account([result(10, 2)], since=10, until=12, sent=5)

    assert (found.lost, found.surplus, found.exact) == (3, 0, False)


def test_account_when_a_window_comes_again_then_it_is_repeated_and_counts_once():
    found = account([result(10, 2), result(10, 2)], since=10, until=12, sent=2)

    assert (found.lost, found.surplus, found.repeated, found.exact) == (0, 0, 1, False)


def test_account_when_windows_lie_outside_of_the_load_then_they_do_not_count():
    results = [result(9, 50), result(10, 2), result(12, 50)]

    assert account(results, since=10, until=12, sent=2).exact


def test_account_when_more_is_counted_than_was_sent_then_it_is_surplus():
    assert account([result(10, 7)], since=10, until=12, sent=5).surplus == 2


def test_latency_when_windows_end_inside_of_the_interval_then_it_is_their_median():
    results = [
        result(9, received_at=10.2),
        result(10, received_at=11.4),
        result(11, received_at=12.8),
        result(12, received_at=99.0),
    ]

    assert median_latency_s(results, 10, 13) == pytest.approx(0.4)
    assert median_latency_s(results, 50, 60) is None


def test_overdue_when_windows_have_come_then_it_counts_from_the_next_ones_end_and_the_allowance():
    assert overdue_s([result(10), result(11)], since=10, now=16.0) == pytest.approx(3.0 - ALLOWED_S)


def test_overdue_when_no_window_has_come_then_it_counts_from_the_first():
    assert overdue_s([result(5)], since=10, now=16.0) == pytest.approx(5.0 - ALLOWED_S)


@pytest.mark.parametrize(
    ("overdue", "load_behind_s", "found", "why"),
    [
        (2.9, 0.2, EXACT, None),
        (-0.3, 0.0, EXACT, None),
        (3.1, 0.2, None, "overdue"),
        (0.5, 1.1, EXACT, "the broker"),
        (0.5, 0.2, Account(10, lost=1, surplus=0, repeated=0), "1 are lost"),
        (0.5, 0.2, Account(10, lost=0, surplus=0, repeated=1), "1 results repeated"),
    ],
    ids=["keeps up", "early", "late", "load late", "loses", "repeats"],
)
def test_engine_when_it_is_late_or_inexact_then_it_does_not_keep_up(overdue, load_behind_s, found, why):
    said = falls_behind(overdue, load_behind_s, found)

    assert said is None if why is None else why in (said or "")
