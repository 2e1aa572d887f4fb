"""Compute the functions of the language from all of their values, the slow and obvious way.

Each function follows its row in the tables of docs/query-language.md. None stands for *no value*.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any


def finite(value: float) -> float | None:
    """Return the number; no value if it is beyond the range of numbers."""
    return value if math.isfinite(value) else None


def arithmetic(operator: str, left: float | None, right: float | None) -> float | None:
    """Return `left operator right`."""
    if left is None or right is None:
        return None
    if operator in "/%" and right == 0:
        return None
    match operator:
        case "+":
            return finite(left + right)
        case "-":
            return finite(left - right)
        case "*":
            return finite(left * right)
        case "/":
            return finite(left / right)
        case _:
            return math.fmod(left, right)  # It has the sign of the dividend.


def of_one_value(function: str, value: float | None) -> float | None:
    """Return a function of one value."""
    if value is None:
        return None
    match function:
        case "ABS":
            return abs(value)
        case "SQR":
            return finite(value * value)
        case _:
            return math.sqrt(value) if value >= 0 else None


def of_values(function: str, parameters: Sequence[float], values: Sequence[Any]) -> float | list[Any] | None:
    """Return a function of values in the order of their events."""
    if function in ("COUNT", "RUNNING_COUNT"):
        return float(len(values))
    try:
        return _OF_VALUES[function](values, *parameters) if values else None
    except OverflowError:
        return None


def correlation(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Return Pearson's coefficient."""
    xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if len(set(xs)) < 2 or len(set(ys)) < 2:
        return None
    x_mean, y_mean = statistics.fmean(xs), statistics.fmean(ys)
    both = math.fsum((x - x_mean) * (y - y_mean) for x, y in pairs)
    # One root of the product: it makes the coefficient of equal sides exactly 1.
    spread = math.sqrt(math.fsum((x - x_mean) ** 2 for x in xs) * math.fsum((y - y_mean) ** 2 for y in ys))
    return None if spread == 0 else finite(both / spread)


def outliers(values: Sequence[tuple[int, float]], k: int, r: float) -> list[dict[str, float]]:
    """Return the values with fewer than `k` others within `r`, with their times."""
    found = []
    for place, (time, value) in enumerate(values):
        others = [other for at, (_, other) in enumerate(values) if at != place]
        neighbours = sum(abs(value - other) <= r for other in others)
        if neighbours < k:
            found.append({"time": time, "value": value, "neighbours": neighbours})
    return found


def geohash(latitude: float, longitude: float, characters: int) -> str:
    """Return the square of the map, by halving it again and again: first by longitude, then by latitude."""
    sides = [[-180.0, 180.0, longitude], [-90.0, 90.0, latitude]]
    letters = []
    for at in range(characters):
        number = 0
        for bit in range(5):
            side = sides[(at * 5 + bit) % 2]
            middle = (side[0] + side[1]) / 2
            is_upper = side[2] >= middle
            side[0 if is_upper else 1] = middle
            number = number * 2 + is_upper
        letters.append("0123456789bcdefghjkmnpqrstuvwxyz"[number])
    return "".join(letters)


def _sum(values: Sequence[float]) -> float | None:
    return finite(math.fsum(values))


def _mean(values: Sequence[float]) -> float | None:
    return finite(math.fsum(values) / len(values))


def _variance(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    if min(values) == max(values):
        return 0.0  # The mean is rounded, and may differ from values that are all equal.
    mean = math.fsum(values) / len(values)
    return finite(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _deviation(values: Sequence[float]) -> float | None:
    variance = _variance(values)
    return None if variance is None else math.sqrt(variance)


def _geometric_mean(values: Sequence[float]) -> float | None:
    if min(values) <= 0:
        return None
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _percentile(values: Sequence[float], percent: float) -> float | None:
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return finite(ordered[below] + (ordered[above] - ordered[below]) * (position - below))


def _mode(values: Sequence[float]) -> float:
    counts = Counter(values)
    most = max(counts.values())
    return min(value for value, count in counts.items() if count == most)


def _top(values: Sequence[Any], k: float) -> list[dict[str, Any]]:
    ordered = sorted(Counter(values).items(), key=lambda item: (-item[1], item[0]))
    return [{"value": value, "count": count} for value, count in ordered[: int(k)]]


def _histogram(values: Sequence[float], bins: float) -> list[dict[str, float]] | None:
    least, largest = min(values), max(values)
    if least == largest:
        return [{"from": least, "to": largest, "count": len(values)}]
    if finite(largest - least) is None:
        return None
    count = int(bins)
    edges = [least + (largest - least) * at / count for at in range(count)] + [largest]
    last = count - 1
    return [
        {
            "from": edges[at],
            "to": edges[at + 1],
            "count": sum(edges[at] <= value and (value < edges[at + 1] or at == last) for value in values),
        }
        for at in range(count)
    ]


def _ewma(values: Sequence[float], weight: float) -> float | None:
    mean = values[0]
    for value in values[1:]:
        mean = weight * value + (1 - weight) * mean
    return finite(mean)


PEWMA_TRAINING = 30
"""Values of which `PEWMA` is the plain mean."""


def _pewma(values: Sequence[float], past: float) -> float | None:
    mean = variance = 0.0
    for number, value in enumerate(values, 1):
        if number <= PEWMA_TRAINING:
            newest = 1 / number
        elif variance > 0:
            z = (value - mean) / math.sqrt(variance)
            newest = 1 - past * (1 - _density(z))
        else:
            newest = 1 - past * (1 - _density(0.0 if value == mean else math.inf))
        variance = (1 - newest) * (variance + newest * (value - mean) ** 2)
        mean = newest * value + (1 - newest) * mean
    return finite(mean)


def _density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def _newest(values: Sequence[Any]) -> Any:
    return values[-1]


def _difference(values: Sequence[float]) -> float | None:
    return finite(values[-1] - values[-2]) if len(values) > 1 else None


_OF_VALUES: dict[str, Callable[..., Any]] = {
    "AVG": _mean,
    "SUM": _sum,
    "MIN": min,
    "MAX": max,
    "VARIANCE": _variance,
    "SDEV": _deviation,
    "GEOMETRIC_MEAN": _geometric_mean,
    "PERCENTILE": _percentile,
    "MEDIAN": lambda values: _percentile(values, 50.0),
    "MODE": _mode,
    "TOP_K": _top,
    "HISTOGRAM": _histogram,
    "RUNNING_MEAN": _mean,
    "RUNNING_MIN": min,
    "RUNNING_MAX": max,
    "RUNNING_SDEV": _deviation,
    "EWMA": _ewma,
    "PEWMA": _pewma,
    "DIFF": _difference,
    "VALUE": _newest,
}
