"""Estimate a window from a part of its events, and say how far the estimate may be off.

Each event that was read stands for w = 1 / share events. Sums of w · v estimate those of all events, and sums
of w · (w - 1) · v² their variances (Horvitz and Thompson, 1952, for samples of independent events). A mean is
a quotient of two such sums, with the variance of its linear part (Särndal et al., 1992, section 5.6). If all
events were read, w is 1 and nothing is in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist

from towpath.queries.evaluation.totals import Totals, Weighted
from towpath.queries.tree import Arithmetic, Expression, Negative, Number

Interval = tuple[float, float]
"""Least and largest value."""


def estimate(function: str, totals: Totals) -> float | None:
    """Return a function's estimate; None if there is no value."""
    sums = totals.weighted
    if function == "COUNT":
        return sums.weight
    if not totals.count:
        return None
    return sums.weighted if function == "SUM" else sums.weighted / sums.weight


def interval(function: str, totals: Totals, confidence: float) -> Interval | None:
    """Return the interval that holds the value of all events with this probability."""
    value = estimate(function, totals)
    if value is None:
        return None
    reach = _quantile(confidence, totals.count) * math.sqrt(max(_variance(function, totals.weighted), 0.0))
    return value - reach, value + reach


def _variance(function: str, sums: Weighted) -> float:
    match function:
        case "COUNT":
            return sums.doubt
        case "SUM":
            return sums.doubt_squares
        case _:
            mean = sums.weighted / sums.weight
            off = sums.doubt_squares - 2 * mean * sums.doubt_weighted + mean * mean * sums.doubt
            return off / sums.weight**2


def normal_quantile(confidence: float) -> float:
    """Return the number of standard deviations that hold a value with this probability."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _quantile(confidence: float, count: int) -> float:
    """Return Student's quantile for so many events (first terms of Fisher and Cornish, 1960)."""
    normal = normal_quantile(confidence)
    return normal + (normal**3 + normal) / (4 * max(count - 1, 1))


def bounds(expression: Expression, of_use: Callable[[Expression], Interval | None]) -> Interval | None:
    """Return the least and the largest value of an expression; None if it has no such bounds."""
    match expression:
        case Number(value):
            return value, value
        case Negative(inner):
            found = bounds(inner, of_use)
            return None if found is None else (-found[1], -found[0])
        case Arithmetic(sign, left, right):
            sides = bounds(left, of_use), bounds(right, of_use)
            return None if sides[0] is None or sides[1] is None else _computed(sign, sides[0], sides[1])
    return of_use(expression)


def _computed(sign: str, left: Interval, right: Interval) -> Interval | None:
    match sign:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            corners = [one * other for one in left for other in right]
        case "/" if right[0] > 0 or right[1] < 0:
            corners = [one / other for one in left for other in right]
        case _:
            return None
    return min(corners), max(corners)
