"""Forecast rates of sources and empty batteries from their history.

A rate with a season (a day) is what was usual at that time of earlier seasons, plus the present deviation
from it, which fades as deviations did so far (an autoregression of order 1). A rate without a season, or with
less than one of history, is a level with a damped trend (Holt, Gardner and McKenzie), whose smoothing is the
one that erred least so far. Both take numpy alone: libraries were measured, and are not better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UPPER = 0.9
"""Share of past errors that the upper course covers."""

MOST_VALUES = 20_000
"""Steps of history that are looked at: two months of five minutes."""

MOST_TREND_VALUES = 120
"""Steps of history for a trend: older ones hardly count, and each costs 10 µs."""

SMOOTHING = np.array([(level, trend) for level in (0.1, 0.2, 0.35, 0.5, 0.8) for trend in (0.0, 0.1, 0.3)])
"""Pairs that are tried: the share of an error by which the level follows, and of that the trend."""

DAMPING = 0.9
"""Share of the trend that is left after each step. So it adds at most nine times itself."""

CHARGE_S = 1800.0
"""Readings of a battery that count. Batteries tell whole percents: this is 6 % of one that lasts 8 hours."""

MOST_READINGS = 120
"""Readings for a trend of charge. All pairs of them are looked at."""


@dataclass(frozen=True)
class Forecast:
    """Events/s in steps from now on."""

    step_s: float
    mean: tuple[float, ...]
    upper: tuple[float, ...]
    """Seldom exceeded: the mean plus that quantile of its own past errors, for each step ahead."""


def forecast_rates(
    history: Sequence[tuple[float, float]],
    now_s: float,
    step_s: float,
    steps: int,
    season_s: float | None = None,
) -> Forecast:
    """Return the course of a rate from its history, pairs of time and events/s in any spacing.

    A value holds until the next one. Without history the rate is 0.
    """
    values = _in_steps(history, now_s, step_s)
    if not len(values):
        return Forecast(step_s, (0.0,) * steps, (0.0,) * steps)
    season = round(season_s / step_s) if season_s else 0
    course = _by_season if 1 <= season < len(values) else _by_trend
    mean, error = course(values, season, steps)
    upper = np.maximum(mean, 0) + np.maximum(error, 0)
    return Forecast(step_s, tuple(np.maximum(mean, 0).tolist()), tuple(upper.tolist()))


def _sorted(history: Sequence[tuple[float, float]], from_s: float, to_s: float) -> Floats:
    """Return the pairs of an interval, by time: one row each."""
    pairs = np.asarray(history, dtype=np.float64).reshape(-1, 2)
    pairs = pairs[(from_s <= pairs[:, 0]) & (pairs[:, 0] <= to_s)]
    return pairs[np.argsort(pairs[:, 0], kind="stable")]


def _in_steps(history: Sequence[tuple[float, float]], now_s: float, step_s: float) -> Floats:
    """Return the mean value of each step until now, the newest last. Steps without one repeat the last."""
    pairs = _sorted(history, -math.inf, now_s)
    ages = np.floor((now_s - pairs[:, 0]) / step_s).astype(int)
    known = ages < MOST_VALUES
    if not known.any():
        return pairs[-1:, 1]
    numbers = ages[known].max() - ages[known]
    length = numbers[-1] + 1 + ages[-1]
    counts = np.bincount(numbers, minlength=length)
    sums = np.bincount(numbers, pairs[known, 1], minlength=length)
    filled = np.maximum.accumulate(np.where(counts > 0, np.arange(length), 0))
    return sums[filled] / counts[filled]


def _by_season(values: Floats, season: int, steps: int) -> tuple[Floats, Floats]:
    """Return the mean course and the quantile of its errors for each step."""
    rows = -(-len(values) // season)
    table = np.full(rows * season, np.nan)
    table[-len(values) :] = values
    table = table.reshape(rows, season)
    is_known = ~np.isnan(table)
    counts = np.cumsum(is_known, axis=0)
    usual = np.cumsum(np.where(is_known, table, 0.0), axis=0) / np.where(counts > 0, counts, np.nan)
    deviation = (table[1:] - usual[:-1]).ravel()
    deviation = deviation[~np.isnan(deviation)]
    square = float(deviation @ deviation)
    kept = min(max(float(deviation[1:] @ deviation[:-1]) / square, 0.0), 0.98) if square else 0.0
    ahead = np.arange(steps)
    mean = usual[-1][ahead % season] + deviation[-1] * kept ** (ahead + 1)
    errors = [deviation[step:] - kept**step * deviation[:-step] for step in _lags(steps, len(deviation))]
    return mean, _quantiles(errors, steps)


def _by_trend(values: Floats, season: int, steps: int) -> tuple[Floats, Floats]:
    """Return the mean course and the quantile of its errors for each step."""
    values = values[-MOST_TREND_VALUES:]
    levels = np.empty((len(values), len(SMOOTHING)))
    trends = np.zeros_like(levels)
    levels[0] = values[0]
    by_level, by_trend = SMOOTHING.T
    squares = np.zeros(len(SMOOTHING))
    for number in range(1, len(values)):
        expected = levels[number - 1] + DAMPING * trends[number - 1]
        error = values[number] - expected
        squares += error**2
        levels[number] = expected + by_level * error
        trends[number] = DAMPING * trends[number - 1] + by_level * by_trend * error
    best = int(squares.argmin())
    level, trend = levels[:, best], trends[:, best]
    added = np.cumsum(DAMPING ** np.arange(1, steps + 1))
    lags = _lags(steps, len(values))
    errors = [values[step:] - level[:-step] - added[step - 1] * trend[:-step] for step in lags]
    return level[-1] + added * trend[-1], _quantiles(errors, steps)


def _lags(steps: int, known: int) -> range:
    """Return the steps ahead for which there are past errors."""
    return range(1, min(steps, known - 1) + 1)


def _quantiles(errors: Sequence[Floats], steps: int) -> Floats:
    """Return the upper quantile for each step; the last one holds on where history is too short."""
    found = [float(np.quantile(each, UPPER)) for each in errors] or [0.0]
    return np.array(found + found[-1:] * (steps - len(found)))


def empty_in_s(history: Sequence[tuple[float, float]], now_s: float) -> float:
    """Return the seconds until a battery is empty, from pairs of time and charge (0 to 1).

    It is the median slope between any two readings of the last half hour (Theil and Sen), which single wrong
    readings do not change. Infinite while it charges, which the last third decides, or if nothing changes.
    """
    readings = _sorted(history, now_s - CHARGE_S, now_s)
    if len(readings) < 2:
        return math.inf
    recent = readings[readings[:, 0] >= now_s - CHARGE_S / 3]
    turned = _slope(recent) if len(recent) > 2 else 0.0
    slope = _slope(readings)
    if turned > 0:
        return math.inf
    if slope >= 0:
        readings, slope = recent, turned
    if slope >= 0:
        return math.inf
    charge = float(np.median(readings[:, 1] + slope * (now_s - readings[:, 0])))
    return max(charge, 0.0) / -slope


def _slope(readings: Floats) -> float:
    """Return the median slope between any two readings."""
    if len(readings) > MOST_READINGS:
        readings = readings[np.linspace(0, len(readings) - 1, MOST_READINGS).astype(int)]
    first, second = np.triu_indices(len(readings), 1)
    seconds, change = (readings[second] - readings[first]).T
    return float(np.median(change[seconds > 0] / seconds[seconds > 0])) if (seconds > 0).any() else 0.0
