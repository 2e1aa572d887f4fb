"""Sum up the samples of one series over a minute. Only the single values are lost. Pure functions."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from math import floor

MINUTE_S = 60.0


@dataclass(frozen=True)
class Rollup:
    """Summary of the samples between two moments. Rollups of neighbouring ranges add up."""

    sum: float
    count: int
    min: float
    max: float
    last: float
    grown: float = 0.0
    """Growth of a counter up to the last sample, since the one before the first."""
    over_s: float = 0.0
    """Seconds in which it grew. 0 when there was no sample before."""

    @classmethod
    def of(cls, value: float, grown: float = 0.0, over_s: float = 0.0) -> Rollup:
        """Return the rollup of a single sample."""
        return cls(value, 1, value, value, value, grown, over_s)

    def followed_by(self, later: Rollup) -> Rollup:
        """Return the rollup of both ranges."""
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
        """All fields in their order, as a row of the table holds them."""
        return astuple(self)


def growth(before: float, value: float) -> float:
    """Return the growth of a counter between two samples. A counter that fell began at 0 again."""
    return value - before if value >= before else value


def rolled_up(earlier: Rollup | None, later: Rollup) -> Rollup:
    """Return the rollup of a range that may be empty and of the one that follows."""
    return later if earlier is None else earlier.followed_by(later)


def minute_of(at: float) -> float:
    """Return the begin of the minute that contains a moment, in Unix seconds."""
    return floor(at / MINUTE_S) * MINUTE_S


def next_minute(at: float) -> float:
    """Return the begin of the first minute that does not begin before a moment."""
    begin = minute_of(at)
    return begin if begin == at else begin + MINUTE_S
