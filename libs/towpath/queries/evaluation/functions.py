"""Compute the functions of a window: of what panes keep, or of the values themselves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from towpath.queries.evaluation.exact_sum import value_of
from towpath.queries.evaluation.totals import Totals, Value

Answer = float | list[Any] | None


OF_TOTALS: Mapping[str, Callable[[Totals], Answer]] = {
    "AVG": Totals.mean,
    "SUM": lambda totals: value_of(totals.sum) if totals.count else None,
    "COUNT": lambda totals: totals.count,
    "MIN": lambda totals: totals.min,
    "MAX": lambda totals: totals.max,
    "VARIANCE": Totals.variance,
    "SDEV": Totals.deviation,
    "RUNNING_COUNT": lambda totals: totals.count,
    "RUNNING_MEAN": Totals.mean,
    "RUNNING_MIN": lambda totals: totals.min,
    "RUNNING_MAX": lambda totals: totals.max,
    "RUNNING_SDEV": Totals.deviation,
}
"""Function → its value from totals."""


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value at position (n - 1) · percent / 100 of the values in order, interpolated."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    share = place - below
    return ordered[below] if share == 0 else ordered[below] + (ordered[above] - ordered[below]) * share


def geometric_mean(values: Sequence[float]) -> Answer:
    """Return the geometric mean; None if a value is zero or less."""
    if min(values) <= 0:
        return None
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def mode(values: Sequence[float]) -> float:
    """Return the most frequent value; of several the least."""
    counts = Counter(values)
    return min(counts, key=lambda value: (-counts[value], value))


def most_frequent(values: Sequence[Value], number: int) -> list[Any]:
    """Return the most frequent values with their counts."""
    counts = Counter(values)
    ordered = sorted(counts, key=lambda value: (-counts[value], value))
    return [{"value": value, "count": counts[value]} for value in ordered[:number]]


def histogram(values: Sequence[float], number: int) -> list[Any]:
    """Return bins of equal width between the least and the largest value; one bin if all are equal."""
    least, most = min(values), max(values)
    if least == most:
        return [{"from": least, "to": most, "count": len(values)}]
    width = (most - least) / number
    counts = Counter(min(int((value - least) / width), number - 1) for value in values)
    edges = [*(least + width * at for at in range(number)), most]
    return [{"from": edges[at], "to": edges[at + 1], "count": counts[at]} for at in range(number)]


def correlation(pairs: Sequence[tuple[float, float]]) -> Answer:
    """Return Pearson's coefficient; None if there are fewer than two pairs, or a side has one value only."""
    if len(pairs) < 2:
        return None
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    if min(left) == max(left) or min(right) == max(right):
        return None
    mean_left, mean_right = math.fsum(left) / len(left), math.fsum(right) / len(right)
    products = math.fsum((x - mean_left) * (y - mean_right) for x, y in pairs)
    squares_left = math.fsum((x - mean_left) * (x - mean_left) for x in left)
    squares_right = math.fsum((y - mean_right) ** 2 for y in right)
    return products / math.sqrt(squares_left * squares_right) if squares_left and squares_right else None


OF_VALUES: Mapping[str, Callable[[Sequence[Any], Sequence[float]], Answer]] = {
    "GEOMETRIC_MEAN": lambda values, parameters: geometric_mean(values),
    "MEDIAN": lambda values, parameters: percentile(values, 50),
    "PERCENTILE": lambda values, parameters: percentile(values, parameters[0]),
    "MODE": lambda values, parameters: mode(values),
    "TOP_K": lambda values, parameters: most_frequent(values, int(parameters[0])),
    "HISTOGRAM": lambda values, parameters: histogram(values, int(parameters[0])),
}
"""Function → its value from values in the order of events, at least one, and its parameters."""
