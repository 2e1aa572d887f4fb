"""Functions of all values so far whose result depends on the order of events."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from towpath.queries.evaluation.functions import OF_TOTALS, Answer
from towpath.queries.evaluation.totals import Totals, Value
from towpath.queries.tree import VALUE


class Cumulative(Protocol):
    """A function of all values so far."""

    def see(self, value: Any) -> None:
        """Take in the next value."""
        ...

    def value(self) -> Any:
        """Return the function's value; None if it has none yet."""
        ...

    def saved(self) -> list[Any]:
        """Return the state as plain data."""
        ...

    def restore(self, saved: Sequence[Any]) -> None:
        """Go on from what `saved` returned."""
        ...


class RunningTotals:
    """`RUNNING_COUNT` and its like. Takes in whole panes, too."""

    def __init__(self, function: str) -> None:
        self._value = OF_TOTALS[function]
        self._totals = Totals()

    def see(self, value: Value) -> None:
        """Take in the next value."""
        self._totals.see(value)

    def add(self, totals: Totals) -> None:
        """Take in the values of a pane."""
        self._totals.add(totals)

    def value(self) -> Answer:
        """Return the function's value."""
        return self._value(self._totals)

    def saved(self) -> list[Any]:
        """Return the totals as plain data."""
        return self._totals.saved()

    def restore(self, saved: Sequence[Any]) -> None:
        """Go on from what `saved` returned."""
        self._totals = Totals.restored(saved)


class _Numbers:
    """A few numbers, all of them None before the first value."""

    size = 1

    def __init__(self, parameters: Sequence[float] = ()) -> None:
        self.parameters = parameters
        self.numbers: list[Any] = [None] * self.size

    def saved(self) -> list[Any]:
        """Return the numbers."""
        return [*self.numbers]

    def restore(self, saved: Sequence[Any]) -> None:
        """Go on from what `saved` returned."""
        self.numbers = [*saved]


class Newest(_Numbers):
    """The newest value."""

    def see(self, value: Value) -> None:
        """Take in the next value."""
        self.numbers = [value]

    def value(self) -> Any:
        """Return it."""
        return self.numbers[0]


class Difference(_Numbers):
    """The newest value less the one before."""

    size = 2

    def see(self, value: float) -> None:
        """Take in the next value."""
        self.numbers = [self.numbers[1], value]

    def value(self) -> float | None:
        """Return the difference; None before the second value."""
        before, newest = self.numbers
        return None if before is None else newest - before


class MovingAverage(_Numbers):
    """The exponentially weighted moving average. Its parameter is the weight of the newest value."""

    def see(self, value: float) -> None:
        """Take in the next value."""
        weight, (before,) = self.parameters[0], self.numbers
        self.numbers = [value if before is None else weight * value + (1 - weight) * before]

    def value(self) -> float | None:
        """Return the average."""
        return self.numbers[0]


class ProbabilisticAverage(_Numbers):
    """The average whose weights follow how probable a value is.

    Carter and Streilein, "Probabilistic reasoning for streaming anomaly detection" (2012), algorithm 1, with
    β = 1. The parameter is the weight of the past. The variance is kept and not the mean
    of squares, which would cancel out.
    """

    size = 3
    TRAINING = 30

    def see(self, value: float) -> None:
        """Take in the next value."""
        count, mean, variance = (number or 0 for number in self.numbers)
        count += 1
        weight = 1 / count
        if count > self.TRAINING:
            weight = 1 - (1 - self._probability(value, mean, variance)) * self.parameters[0]
        distance = value - mean
        variance = (1 - weight) * (variance + weight * distance * distance)
        self.numbers = [count, weight * value + (1 - weight) * mean, variance]

    def _probability(self, value: float, mean: float, variance: float) -> float:
        """The density of the standard normal distribution where the value lies."""
        if variance <= 0:
            return 1 / math.sqrt(2 * math.pi) if value == mean else 0.0
        distance = (value - mean) / math.sqrt(variance)
        return math.exp(-distance * distance / 2) / math.sqrt(2 * math.pi)

    def value(self) -> float | None:
        """Return the average."""
        return self.numbers[1]


ORDERED: Mapping[str, Callable[[Sequence[float]], Cumulative]] = {
    VALUE: Newest,
    "DIFF": Difference,
    "EWMA": MovingAverage,
    "PEWMA": ProbabilisticAverage,
}
"""Function → what computes it, from its parameters."""


def cumulative(function: str, parameters: Sequence[float]) -> Cumulative:
    """Return what computes a function of all values so far."""
    return ORDERED[function](parameters) if function in ORDERED else RunningTotals(function)
