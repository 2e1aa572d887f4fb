"""Whether jobs that an apply leaves alone go on publishing as before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Interval = tuple[float, float]
"""Begin and end, Unix seconds."""


@dataclass(frozen=True)
class Gaps:
    """How long outputs were without a new result."""

    jobs: int
    """Jobs that had results before and after."""
    usual_s: float
    """Median time between two results while nothing changed; of the slowest job."""
    longest_before_s: float
    """Longest time while nothing changed, of all jobs."""
    longest_s: float
    """Longest time that overlaps a change, of all jobs."""
    beyond_usual_s: float
    """By how much a job's longest time in a change exceeds its longest one before, at worst; 0 up to the
    tolerance."""


def gaps(
    arrivals: dict[str, np.ndarray], quiet: Interval, changing: Interval, tolerance_s: float
) -> Gaps | None:
    """Compare each job with itself; none when no job has enough results to tell.

    `arrivals` has, by job, when its results were stored, ascending. `tolerance_s` is by how much two
    intervals differ without cause: an event may just meet or just miss a trigger.
    """
    found: list[tuple[float, float, float]] = []
    for times in arrivals.values():
        begins, lengths = times[:-1], np.diff(times)
        before = lengths[(begins >= quiet[0]) & (times[1:] <= quiet[1])]
        during = lengths[(begins < changing[1]) & (times[1:] > changing[0])]
        if len(before) >= 3 and len(during):
            found.append((float(np.median(before)), float(before.max()), float(during.max())))
    if not found:
        return None
    usual, before_s, during_s = (np.array(column) for column in zip(*found, strict=True))
    beyond = float((during_s - before_s).max())
    return Gaps(
        jobs=len(found),
        usual_s=float(usual.max()),
        longest_before_s=float(before_s.max()),
        longest_s=float(during_s.max()),
        beyond_usual_s=beyond if beyond > tolerance_s else 0.0,
    )


def distinct_times(stored_at: np.ndarray, apart_s: float) -> np.ndarray:
    """One time for results that were stored together, less than `apart_s` after each other."""
    if not len(stored_at):
        return stored_at
    return stored_at[np.concatenate([[True], np.diff(stored_at) >= apart_s])]
