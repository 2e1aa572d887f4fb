"""Gaps in the results of jobs that an apply leaves unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Interval = tuple[float, float]
"""Begin and end, Unix seconds."""


@dataclass(frozen=True)
class Gaps:
    """Longest times without a new result."""

    jobs: int
    """Jobs that had results before and after."""
    usual_s: float
    """Median time between two results while nothing changed; of the slowest job."""
    longest_before_s: float
    """Longest time while nothing changed, of all jobs."""
    longest_s: float
    """Longest time that overlaps a change, of all jobs."""
    beyond_usual_s: float
    """Largest excess of a job's longest time in a change over its longest one before; 0 within the tolerance.
    It includes the delays of all jobs before it in the chain."""
    own_s: float
    """The same excess of the time that a job itself adds: the time between two results less the time between
    their events. A paused job shows it, and the jobs behind it do not."""


def gaps(
    arrivals: dict[str, np.ndarray],
    quiet: Interval,
    changing: Interval,
    tolerance_s: float,
    inputs: dict[str, np.ndarray] | None = None,
) -> Gaps | None:
    """Compare each job with itself; None if no job has enough results.

    `arrivals` has the times at which each job's results were stored, ascending, and `inputs` the times of
    their events. Without those, events are assumed to come evenly. `tolerance_s` is the normal difference
    between two intervals, a whole trigger interval: one event just meets a trigger, the next just misses it.
    """
    found: list[tuple[float, float, float, float]] = []
    for job, times in arrivals.items():
        begins, lengths = times[:-1], np.diff(times)
        before = (begins >= quiet[0]) & (times[1:] <= quiet[1])
        during = (begins < changing[1]) & (times[1:] > changing[0])
        if before.sum() >= 3 and during.any():
            usual, longest = float(np.median(lengths[before])), float(lengths[before].max())
            added = lengths - np.diff(inputs[job]) if inputs and job in inputs else lengths
            own = float(added[during].max() - added[before].max())
            found.append((usual, longest, float(lengths[during].max()), own))
    if not found:
        return None
    usual_s, before_s, during_s, own_s = (np.array(column) for column in zip(*found, strict=True))
    beyond, own = float((during_s - before_s).max()), float(own_s.max())
    return Gaps(
        jobs=len(found),
        usual_s=float(usual_s.max()),
        longest_before_s=float(before_s.max()),
        longest_s=float(during_s.max()),
        beyond_usual_s=beyond if beyond > tolerance_s else 0.0,
        own_s=own if own > tolerance_s else 0.0,
    )
