"""Totals of values whose order does not matter: count, sum, spread and extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from towpath.queries.evaluation.exact_sum import Expansion, add, value_of

Value = float | str | bool

_HALF = 2.0**27 + 1
"""Splits a double into two halves of its digits (Veltkamp)."""


@dataclass
class Weighted:
    """Sums over events of weight w with a value v, of which others may have been left out."""

    weight: float = 0.0
    weighted: float = 0.0
    squares: float = 0.0
    doubt: float = 0.0
    doubt_weighted: float = 0.0
    doubt_squares: float = 0.0

    def add(self, other: Weighted) -> None:
        """Add others."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


@dataclass
class Totals:
    """Totals of values that came one by one, or of panes; not of both."""

    count: int = 0
    sum: Expansion = field(default_factory=list)
    squares: Expansion = field(default_factory=list)
    """The exact sum of squares, of values that came one by one."""
    spread: float = 0.0
    """The sum of squared distances from the mean, of panes."""
    min: float | None = None
    max: float | None = None
    weighted: Weighted = field(default_factory=Weighted)
    """Of panes, where answers are estimates."""

    def add(self, pane: Totals) -> None:
        """Take in the values of a pane. Spreads are joined as in Chan, Golub and LeVeque (1979)."""
        if self.count and pane.count and self.sum and pane.sum:
            distance = value_of(pane.sum) / pane.count - value_of(self.sum) / self.count
            self.spread += distance * distance * self.count * pane.count / (self.count + pane.count)
        self.spread += pane.spread
        self.count += pane.count
        add(self.sum, pane.sum)
        self.min = _extreme(min, self.min, pane.min)
        self.max = _extreme(max, self.max, pane.max)
        if pane.weighted.weight:
            self.weighted.add(pane.weighted)

    def see(self, value: Value) -> None:
        """Take in one value."""
        self.come(value)
        if not isinstance(value, str):
            self.min = _extreme(min, self.min, value)
            self.max = _extreme(max, self.max, value)

    def come(self, value: Value) -> None:
        """Count one value, and leave the extremes as they are."""
        self.count += 1
        if not isinstance(value, str):
            add(self.sum, [value])
            add(self.squares, _square(value))

    def leave(self, value: Value) -> None:
        """Take out one value that came, and leave the extremes as they are."""
        self.count -= 1
        if not isinstance(value, str):
            add(self.sum, [-value])
            add(self.squares, [-part for part in _square(value)])

    def mean(self) -> float | None:
        """Return the mean."""
        return value_of(self.sum) / self.count if self.count else None

    def variance(self) -> float | None:
        """Return the variance of a sample."""
        if self.count < 2 or math.inf in (*self.sum, *self.squares):
            return None
        if not self.squares:
            return self.spread / (self.count - 1)
        total, squares = (sum(map(Fraction, part), Fraction()) for part in (self.sum, self.squares))
        return float((squares - total * total / self.count) / (self.count - 1))

    def deviation(self) -> float | None:
        """Return the standard deviation of a sample."""
        variance = self.variance()
        return None if variance is None else math.sqrt(variance)

    def saved(self) -> list[Any]:
        """Return all of it as plain data."""
        weighted = [*vars(self.weighted).values()] if self.weighted.weight else []
        return [self.count, self.sum, self.squares, self.spread, self.min, self.max, weighted]

    @classmethod
    def restored(cls, saved: Sequence[Any]) -> Totals:
        """Return the totals that `saved` returned."""
        count, total, squares, spread, least, most, weighted = saved
        return cls(count, [*total], [*squares], spread, least, most, Weighted(*weighted))


def _extreme(choose: Callable[[float, float], float], one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _square(value: float) -> tuple[float, float]:
    """Return a square, and what it lost by rounding (Dekker, 1971)."""
    product = value * value
    large = _HALF * value
    large -= large - value
    small = value - large
    rest = ((large * large - product) + 2 * large * small) + small * small
    return product, rest if math.isfinite(rest) else 0.0
