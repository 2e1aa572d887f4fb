"""Shares of a site's disk, and the time until a stream drops what a job has to read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath.streams.retention import Margin, divided, margin
from towpath.streams.stream_view import StreamView

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_budget_when_there_is_room_for_all_then_each_stream_gets_what_it_wants() -> None:
    assert divided(100, {"IN": 40, "OUT_a": 40}) == {"IN": 40, "OUT_a": 40}


def test_budget_when_it_is_tight_then_events_of_devices_get_most_and_small_streams_what_they_want() -> None:
    assert divided(100, {"IN": 1000, "OUT_a": 1000, "OUT_b": 10}) == {"IN": 72, "OUT_a": 18, "OUT_b": 10}


NAMES = st.sampled_from(["IN", "OUT_a", "OUT_b", "OUT_c", "$MQTT_msgs"])


@given(st.integers(1, 10**12), st.dictionaries(NAMES, st.integers(1, 10**12)))
def test_budget_when_divided_then_is_kept_and_nothing_is_left_that_a_stream_wants(
    budget: int, wanted: dict[str, int]
) -> None:
    shares = divided(budget, wanted)
    assert shares.keys() == wanted.keys()
    assert sum(shares.values()) <= budget
    assert all(shares[name] <= wanted[name] for name in wanted)
    rounding = len(wanted)
    assert shares == wanted or sum(shares.values()) >= budget - rounding


def stream(first: int, last: int, span_s: float, **limits: float) -> StreamView:
    """Return a stream of 100 bytes an event whose newest is a minute old."""
    newest = NOW - timedelta(minutes=1)
    times = {"first_stored_at": (newest - timedelta(seconds=span_s)).isoformat()}
    view = StreamView("IN", "", (), first, last, size=100 * (last - first + 1), **times)  # type: ignore[arg-type]
    return StreamView(**{**vars(view), "last_stored_at": newest.isoformat(), **limits})


@pytest.mark.parametrize(
    ("position", "limits", "left"),
    [
        (200, {"max_age_s": 3600.0}, None),
        (100, {"max_age_s": 3600.0}, 3600 - 60 - 99),
        (150, {"max_age_s": 3600.0}, 3600 - 60 - 49),
        (0, {"max_age_s": 3600.0}, 3600 - 60 - 99),
        (100, {"max_age_s": 30.0}, 0),
        (150, {"max_bytes": 10_000}, (10_000 - 5_000) / (10_000 / 99)),
        (150, {"max_bytes": 10_000, "max_age_s": 120.0}, 120 - 60 - 49),
        (150, {}, None),
    ],
    ids=["has read all", "age", "half", "from before", "too late", "bytes", "the first limit", "no limit"],
)
def test_time_left_when_a_job_is_behind_then_is_until_the_first_limit_reaches_its_next_event(
    position: int, limits: dict[str, float], left: float | None
) -> None:
    found = margin(stream(101, 200, 99.0, **limits), position, NOW)
    assert (found and found.left_s) == pytest.approx(left)


def test_margin_when_bytes_are_the_first_limit_then_says_how_long_they_last() -> None:
    found = margin(stream(101, 200, 99.0, max_bytes=20_000, max_age_s=3600.0), 200 - 1, NOW)
    assert found == Margin(pytest.approx((20_000 - 100) / (10_000 / 99)), pytest.approx(198))  # type: ignore[arg-type]
