"""Forecasts of the autopilot: rates, batteries, and sites that may fail."""

from __future__ import annotations

import math

import pytest

from towpath.placement.autopilot.forecasts import empty_in_s, forecast_rates
from towpath.placement.data.node_history import NodeHistory, availability

DAY = [100.0, 100, 400, 900, 400, 100]
"""Events/s of a day with six hours."""


def hourly(*rates: float) -> list[tuple[float, float]]:
    """Return rates of hours that end one after the other, the first one at 3600 s."""
    return [(3600.0 * number, rate) for number, rate in enumerate(rates, start=1)]


def test_rate_when_days_are_alike_then_the_next_day_is_expected_like_them() -> None:
    found = forecast_rates(hourly(*DAY * 4), 24 * 3600, 3600, steps=8, season_s=6 * 3600)

    assert found.mean == pytest.approx([*DAY, *DAY[:2]])
    assert found.upper == pytest.approx(found.mean)


def test_rate_when_today_is_busier_then_the_surplus_fades() -> None:
    busier = [1.5 * rate for rate in DAY[:4]]

    found = forecast_rates(hourly(*DAY * 4, *busier), 28 * 3600, 3600, steps=2, season_s=6 * 3600)

    surplus = [mean - usual for mean, usual in zip(found.mean, DAY[4:], strict=True)]
    assert 450 > surplus[0] > surplus[1] > 0


def test_rate_when_history_is_three_points_then_goes_on_from_the_last_one_without_exploding() -> None:
    found = forecast_rates(hourly(0, 100, 200), 3 * 3600, 3600, steps=100, season_s=86_400)

    assert found.mean == tuple(sorted(found.mean))
    assert found.mean[0] > 150
    assert found.mean[-1] < 1000


def test_rate_when_it_falls_then_is_never_negative() -> None:
    found = forecast_rates(hourly(300, 200, 100, 1), 4 * 3600, 3600, steps=50)

    assert min(found.mean) == 0
    assert all(upper >= mean for upper, mean in zip(found.upper, found.mean, strict=True))


@pytest.mark.parametrize(("history", "rate"), [([], 0.0), ([(0.0, 7.0)], 7.0), ([(999.0, 7.0)], 0.0)])
def test_rate_when_history_is_one_point_or_none_then_holds(
    history: list[tuple[float, float]], rate: float
) -> None:
    assert forecast_rates(history, 100, 10, steps=3).mean == (rate,) * 3


def test_rate_when_it_jumps_about_then_the_upper_course_is_above_most_of_it() -> None:
    found = forecast_rates(hourly(*[100.0, 160] * 20), 40 * 3600, 3600, steps=3)

    assert min(found.upper) >= 155
    assert max(found.mean) < 150


def test_rate_when_readings_are_uneven_then_a_value_holds_until_the_next() -> None:
    evenly = forecast_rates(hourly(10, 10, 10, 40, 40), 5 * 3600, 3600, steps=2)
    unevenly = forecast_rates([(3600, 9), (3500, 11), (14_400, 40)], 5 * 3600, 3600, steps=2)

    assert unevenly == evenly


@pytest.mark.parametrize("wrong", [0.8, 0.0])
def test_battery_when_it_discharges_then_a_wrong_reading_does_not_change_when_it_is_empty(
    wrong: float,
) -> None:
    readings = [(60.0 * minute, 0.5 - 0.01 * minute) for minute in range(30)]
    readings[10] = (600.0, wrong)

    assert empty_in_s(readings, 29 * 60) == pytest.approx(21 * 60, rel=0.01)


def test_battery_when_it_tells_whole_percents_then_flat_stretches_are_no_rest() -> None:
    readings = [(60.0 * minute, round(0.5 - 0.002 * minute, 2)) for minute in range(31)]

    assert empty_in_s(readings, 1800) == pytest.approx(220 * 60, rel=0.15)


@pytest.mark.parametrize(
    "charges",
    [
        [0.5] * 30,
        [0.3 + 0.01 * minute for minute in range(30)],
        [0.5 - 0.01 * minute for minute in range(22)] + [0.29 + 0.01 * minute for minute in range(9)],
    ],
    ids=["flat", "charging", "just plugged in"],
)
def test_battery_when_it_is_flat_or_charges_then_is_never_empty(charges: list[float]) -> None:
    readings = [(60.0 * minute, charge) for minute, charge in enumerate(charges)]

    assert math.isinf(empty_in_s(readings, 60.0 * (len(charges) - 1)))


def test_battery_when_it_was_just_unplugged_then_the_last_minutes_decide() -> None:
    charges = [0.3 + 0.01 * minute for minute in range(20)] + [0.49 - 0.01 * minute for minute in range(11)]
    readings = [(60.0 * minute, charge) for minute, charge in enumerate(charges)]

    assert empty_in_s(readings, 1800) == pytest.approx(39 * 60, rel=0.05)


def test_availability_when_a_site_never_failed_or_was_stopped_on_purpose_then_is_one() -> None:
    assert availability(NodeHistory(0, restarts_s=(50, 900)), now_s=1000) == 1
    assert availability(NodeHistory(0, failures_s=(10,), restarts_s=(20,)), now_s=90_000) == 1


def test_availability_when_a_site_failed_three_times_in_ten_minutes_then_is_unstable_for_an_hour() -> None:
    shaky = NodeHistory(0, failures_s=(9400, 9700, 9990), restarts_s=(9405, 9705, 9995))

    assert availability(shaky, now_s=10_000) < 0.95
    assert 0.98 < availability(shaky, now_s=10_000 + 5400) < 1


def test_availability_when_a_site_is_still_down_then_falls_with_time() -> None:
    down = NodeHistory(0, failures_s=(1000,))

    found = [availability(down, now_s) for now_s in (1001, 2800, 4600, 80_000)]

    assert found == sorted(found, reverse=True)
    assert found[1] == pytest.approx(0.5, abs=0.01)
    assert found[-1] < 0.01
