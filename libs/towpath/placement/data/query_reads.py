"""A query that reads stored values: its spouts, the nodes from which each may read, and what a choice costs.

Symbols are those of RAINBOW (D4.2, query-driven placement): a query has spouts, which read, and bolts, which
compute and are all on one node u_b.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Candidate:
    """A node from which a spout may read: its source, or one that holds or could hold a copy."""

    node: str
    latency_ms: float
    """lat(u, u_b), from the node to that of the bolts."""
    staleness_ms: float
    """D(i, u), the time that data takes from the spout's source to the node: 0 at the source."""
    takes_place: bool
    """True if a copy would have to be made there. False at the source, and where a copy is already."""

    def __post_init__(self) -> None:
        for number in (self.latency_ms, self.staleness_ms):
            if not (math.isfinite(number) and number >= 0):
                raise ValueError(f"latency and staleness of {self.node!r} must be finite and not negative")


@dataclass(frozen=True)
class Spout:
    """A reader of one source. Two spouts never share a copy."""

    name: str
    candidates: tuple[Candidate, ...]

    def __post_init__(self) -> None:
        if not self.candidates:
            raise ValueError(f"spout {self.name!r} has no node to read from")
        if len({candidate.node for candidate in self.candidates}) < len(self.candidates):
            raise ValueError(f"spout {self.name!r} names a node twice")


@dataclass(frozen=True)
class ReadingQuery:
    """All that decides from where a query reads."""

    spouts: tuple[Spout, ...]
    beta_ms: float
    """The staleness that is as bad as twice the latency."""
    places: Mapping[str, int] = field(default_factory=dict)
    """Number of further copies that a node may get. A node that is not named has no limit."""

    def __post_init__(self) -> None:
        if not self.spouts:
            raise ValueError("a query needs at least one spout")
        if not (math.isfinite(self.beta_ms) and self.beta_ms >= 0):
            raise ValueError(f"beta must be finite and not negative, not {self.beta_ms}")
        if any(number < 0 for number in self.places.values()):
            raise ValueError("numbers of places must not be negative")


@dataclass(frozen=True)
class Reads:
    """The node from which each spout reads, in the order of the query's spouts."""

    chosen: tuple[Candidate, ...]

    @property
    def latency_ms(self) -> float:
        """L without sampling: the longest latency of a spout."""
        return max(candidate.latency_ms for candidate in self.chosen)

    @property
    def staleness_ms(self) -> float:
        """The largest staleness of a spout."""
        return max(candidate.staleness_ms for candidate in self.chosen)

    @property
    def copies(self) -> int:
        """Number of copies that must be made."""
        return sum(candidate.takes_place for candidate in self.chosen)

    def sampled_latency_ms(self, ratios: Sequence[float]) -> float:
        """Return L: the longest latency × kept share of a spout, with one ratio for each."""
        latencies = (candidate.latency_ms for candidate in self.chosen)
        return max(latency * ratio for latency, ratio in zip(latencies, ratios, strict=True))

    def cost_ms2(self, beta_ms: float, ratios: Sequence[float] | None = None) -> float:
        """Return F = L · (β + largest D) / smallest ratio, in square milliseconds; ratios are 1 if None."""
        if ratios is None:
            return self.latency_ms * (beta_ms + self.staleness_ms)
        return self.sampled_latency_ms(ratios) * (beta_ms + self.staleness_ms) / min(ratios)


def distinct_staleness_ms(query: ReadingQuery) -> list[float]:
    """Return each staleness that a candidate has, the smallest first."""
    return sorted({one.staleness_ms for spout in query.spouts for one in spout.candidates})


def within_places(query: ReadingQuery, chosen: Iterable[Candidate]) -> bool:
    """Return True if no node gets more copies than it has places."""
    left = dict(query.places)
    for candidate in chosen:
        if candidate.takes_place and candidate.node in left:
            left[candidate.node] -= 1
    return all(number >= 0 for number in left.values())
