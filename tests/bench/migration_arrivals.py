"""Results of a moving job as a subscriber received them: gaps, latencies, throughput. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from towpath.checker.identity import identity_of, utc
from towpath.checker.observation import ReceivedMessage, observe

Interval = tuple[float, float]
"""From and until, Unix seconds."""

SAME_MOMENT = 0.1
"""Windows that arrive within this part of their size come from one micro-batch."""


@dataclass(frozen=True)
class Arrivals:
    """Results in order of receipt, as columns."""

    received: np.ndarray
    """Unix seconds, by the subscriber's clock."""
    latencies_s: np.ndarray
    """Time of receipt less the time at which the newest event in the result was stored."""
    windows: np.ndarray
    """Identity of each window: its beginning in microseconds, or its last serial number."""
    events: np.ndarray
    """Number of events that each result stands for."""
    sites: np.ndarray
    """Site that computed each result."""

    @classmethod
    def of(cls, bodies: Sequence[tuple[float, dict[str, Any]]]) -> Arrivals:
        """Make columns from (time of receipt, result)."""
        stored = [utc(body["stored_at"]).timestamp() for _, body in bodies]
        received = np.array([at for at, _ in bodies], float)
        return cls(
            received=received,
            latencies_s=received - np.array(stored, float),
            windows=np.array([_window(body) for _, body in bodies], np.int64),
            events=np.array([body["count"] for _, body in bodies], np.int64),
            sites=np.array([body["site"] for _, body in bodies], str),
        )

    def inside(self, intervals: Sequence[Interval]) -> np.ndarray:
        """Return a mask of results that arrived within any of the intervals (from ≤ t < until)."""
        chosen = np.zeros(len(self.received), bool)
        for begin, end in intervals:
            chosen |= (self.received >= begin) & (self.received < end)
        return chosen

    def latency(self, intervals: Sequence[Interval], percent: float) -> float | None:
        """A percentile of the latencies of results that came within the intervals; none without results."""
        latencies = self.latencies_s[self.inside(intervals)]
        return float(np.percentile(latencies, percent)) if len(latencies) else None

    def events_per_s(self, intervals: Sequence[Interval]) -> float | None:
        """Events that the results within the intervals stand for, per second."""
        seconds = sum(end - begin for begin, end in intervals)
        return float(self.events[self.inside(intervals)].sum() / seconds) if seconds > 0 else None

    def usual_interval_s(self, intervals: Sequence[Interval], size_s: float) -> float | None:
        """The usual time between one window's results and the next one's: the median."""
        between: list[np.ndarray] = []
        for interval in intervals:
            chosen = self.inside([interval])
            _, first = np.unique(self.windows[chosen], return_index=True)
            apart = np.diff(np.sort(self.received[chosen][first]))
            between.append(apart[apart > SAME_MOMENT * size_s])
        apart = np.concatenate(between) if between else np.array([])
        return float(np.median(apart)) if len(apart) else None

    def largest_gap_s(self, begin: float, end: float) -> float | None:
        """The longest time without results that overlaps an interval; none if results end or begin in it."""
        if not len(self.received) or self.received[0] > begin or self.received[-1] < end:
            return None
        before, after = self.received[:-1], self.received[1:]
        return float((after - before)[(after > begin) & (before < end)].max())


def _window(body: dict[str, Any]) -> int:
    if body.get("window") is not None:
        return round(utc(body["window"]["start"]).timestamp() * 1e6)
    return int(body["through"])


def distribution(values: Sequence[float]) -> tuple[list[float], list[float]]:
    """The empirical distribution function: values in order, and the share that is at most as large."""
    ordered = sorted(values)
    return ordered, [(number + 1) / len(ordered) for number in range(len(ordered))]


def recorded(path: Path, topic: str) -> list[ReceivedMessage]:
    """Read the messages that a subscriber kept in a file. Raises `OSError`."""
    observations: list[ReceivedMessage] = []
    for line in path.read_bytes().splitlines():
        at, _, payload = line.partition(b" ")
        observations.append(observe(payload, identity_of, float(at), 1, topic, "bench"))
    return observations


def arrivals_of(observations: Sequence[ReceivedMessage]) -> Arrivals:
    """The readable ones of what a subscriber saw. The others show in the verdict."""
    bodies = [(observation.received_at, observation.body) for observation in observations]
    return Arrivals.of([(at, body) for at, body in bodies if body])
