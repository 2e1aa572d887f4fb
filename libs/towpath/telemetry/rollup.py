"""Samples of one series summed up over a minute: nothing but the single values is lost. Pure functions."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import floor

MINUTE_S = 60.0


@dataclass(frozen=True)
class Rollup:
    """What is known of the samples between two moments. Rollups of neighbouring ranges add up."""

    sum: float
    count: int
    min: float
    max: float
    last: float
    grown: float = 0.0
    """By how much a counter grew up to the last sample, since the one before the first."""
    over_s: float = 0.0
    """In how many seconds it did; 0 when there was no sample before."""

    @classmethod
    def of(cls, value: float, grown: float = 0.0, over_s: float = 0.0) -> Rollup:
        """Of a single sample."""
        return cls(value, 1, value, value, value, grown, over_s)

    def followed_by(self, later: Rollup) -> Rollup:
        """Of both ranges."""
        return Rollup(
            self.sum + later.sum,
            self.count + later.count,
            min(self.min, later.min),
            max(self.max, later.max),
            later.last,
            self.grown + later.grown,
            self.over_s + later.over_s,
        )

    def values(self) -> tuple[float, ...]:
        """All fields in their order, as a row of a table holds them."""
        return astuple(self)


def growth(before: float, value: float) -> float:
    """By how much a counter grew between two samples. One that is smaller now began at 0 again."""
    return value - before if value >= before else value


def rolled_up(earlier: Rollup | None, later: Rollup) -> Rollup:
    """Of a range that may be empty, and what follows."""
    return later if earlier is None else earlier.followed_by(later)


def minute_of(at: float) -> float:
    """The begin of the minute that a moment lies in, Unix seconds."""
    return floor(at / MINUTE_S) * MINUTE_S


def next_minute(at: float) -> float:
    """The begin of the first minute that does not begin before a moment."""
    begin = minute_of(at)
    return begin if begin == at else begin + MINUTE_S
