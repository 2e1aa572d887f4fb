"""Limits of an uplink: windows by crontab and timetable, budgets that survive a restart, and its rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from towpath.contracts.uplink import UplinkSpec, UplinkState, UplinkWindow
from towpath.uplinks.allowance import Allowance, Spending
from towpath.uplinks.windows import next_opening, open_at

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
HOURLY = UplinkWindow(cron="0 * * * *", duration_s=600)


def spec(**fields: Any) -> UplinkSpec:
    return UplinkSpec.model_validate({"name": "u", "site": "train", "topic": "a", "to": "cloud", **fields})


@pytest.mark.parametrize(("minute", "is_open"), [(0, True), (9, True), (10, False), (59, False)])
def test_window_by_crontab_when_its_duration_is_over_then_it_is_closed(minute: int, is_open: bool) -> None:
    assert (open_at([HOURLY], "UTC", NOON + timedelta(minutes=minute)) is not None) is is_open


def test_window_by_crontab_when_it_is_closed_then_the_next_opening_is_known() -> None:
    assert next_opening([HOURLY], "UTC", NOON + timedelta(minutes=20)) == NOON + timedelta(hours=1)


def test_window_by_crontab_when_its_zone_has_another_clock_then_that_clock_counts() -> None:
    at_eight = UplinkWindow(cron="0 8 * * *", duration_s=60)

    assert open_at([at_eight], "Asia/Tokyo", datetime(2026, 3, 9, 23, 0, 5, tzinfo=UTC)) is not None
    assert open_at([at_eight], "Asia/Tokyo", NOON.replace(hour=8)) is None


def test_window_by_crontab_when_clocks_go_back_then_no_hour_is_left_out() -> None:
    night = datetime(2024, 10, 27, 0, 0, 30, tzinfo=UTC)

    hours = [night + timedelta(hours=hour) for hour in range(4)]
    assert all(open_at([HOURLY], "Europe/Lisbon", hour) for hour in hours)


def test_window_by_timetable_when_its_time_is_over_then_it_does_not_open_again() -> None:
    once = UplinkWindow(opens=NOON, closes=NOON + timedelta(minutes=5))

    assert open_at([once], "UTC", NOON + timedelta(minutes=1)) is not None
    assert next_opening([once], "UTC", NOON - timedelta(days=3)) == NOON
    assert next_opening([once], "UTC", NOON + timedelta(minutes=6)) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": "train"},
        {"priority": 10},
        {"backlog_share": 1},
        {"order": "kept", "late": "topic"},
        {"bytes_per_window": 10_000},
        {"timezone": "Mars/Olympus"},
        {"windows": [{"cron": "61 * * * *", "duration_s": 5}]},
        {"windows": [{"cron": "0 * * * *"}]},
        {"windows": [{"opens": "2026-01-02T00:00:00Z", "closes": "2026-01-01T00:00:00Z"}]},
        {"publish": "site/other"},
    ],
)
def test_uplink_when_its_fields_contradict_then_it_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**wrong)


def test_allowance_when_no_window_is_open_then_it_says_when_one_opens(tmp_path: Path) -> None:
    allowed = Allowance(spec(windows=[HOURLY]), Spending(tmp_path / "a")).at(NOON + timedelta(minutes=30), 0)

    assert allowed.bytes == 0
    assert allowed.state is UplinkState.WINDOW
    assert allowed.opens_at == NOON + timedelta(hours=1)


def test_budget_of_a_window_when_it_is_spent_then_the_next_window_has_one_again(tmp_path: Path) -> None:
    allowance = Allowance(spec(windows=[HOURLY], bytes_per_window=5000), Spending(tmp_path / "a"))

    assert allowance.at(NOON, 0).bytes == 5000
    allowance.spend(5000)
    assert allowance.at(NOON, 1).state is UplinkState.BUDGET
    assert allowance.at(NOON + timedelta(hours=1), 2).bytes == 5000


def test_budget_of_a_month_when_the_process_is_killed_then_at_most_a_step_more_counts(tmp_path: Path) -> None:
    limited = spec(bytes_per_month=100_000)
    for _ in range(5):
        allowance = Allowance(limited, Spending(tmp_path / "a"))
        allowance.at(NOON, 0)
        allowance.spend(10_000)

    left = Allowance(limited, Spending(tmp_path / "a")).at(NOON, 0).bytes

    assert 50_000 - 5 * 1000 <= left <= 50_000


def test_budget_when_the_clock_goes_back_a_month_then_the_later_month_is_spent_on(tmp_path: Path) -> None:
    allowance = Allowance(spec(bytes_per_month=10_000), Spending(tmp_path / "a"))
    allowance.at(NOON, 0)
    allowance.spend(10_000)

    assert allowance.at(NOON - timedelta(days=40), 1).state is UplinkState.BUDGET


def test_budget_when_the_clock_was_years_ahead_for_a_moment_then_does_not_wait_for_that_month(
    tmp_path: Path,
) -> None:
    limits = spec(bytes_per_month=10_000, bytes_per_window=10_000, windows=[HOURLY])
    allowance = Allowance(limits, Spending(tmp_path / "a"))
    allowance.at(NOON.replace(year=2036), 0)
    allowance.spend(10_000)

    assert allowance.at(NOON, 1).bytes == 10_000
    allowance.spend(4000)
    assert allowance.at(NOON.replace(year=1970), 2).bytes == 6000, "a clock that is not set has no month"
    assert allowance.at(NOON + timedelta(minutes=1), 3).bytes == 6000


def test_budget_when_it_cannot_be_written_down_then_nothing_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent then, however often it is tried again."""
    allowance = Allowance(spec(bytes_per_month=10_000, rate=1000), Spending(tmp_path / "a"))
    allowance.at(NOON, 0)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("towpath.uplinks.allowance.write_atomically", full)
        for _ in range(20):
            with pytest.raises(OSError, match="No space"):
                allowance.spend(1000)

    assert (allowance.at(NOON, 1).bytes, allowance.at(NOON, 1).at_once) == (10_000, 1000)


def test_rate_when_bytes_were_sent_beyond_it_then_it_waits(tmp_path: Path) -> None:
    allowance = Allowance(spec(rate=1000), Spending(tmp_path / "a"))
    allowance.at(NOON, 0)
    allowance.spend(3000)

    assert allowance.at(NOON, 1.0).at_once == 0
    assert allowance.at(NOON, 2.5).at_once == 500
