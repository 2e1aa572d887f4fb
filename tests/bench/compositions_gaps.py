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
    tolerance. It holds what all jobs before it in the chain were late."""
    own_s: float
    """The same of the time that a job adds: between two results, less that between the events they are of.
    A job that paused has it, and those behind it have not."""


def gaps(
    arrivals: dict[str, np.ndarray],
    quiet: Interval,
    changing: Interval,
    tolerance_s: float,
    inputs: dict[str, np.ndarray] | None = None,
) -> Gaps | None:
    """Compare each job with itself; none when no job has enough results to tell.

    `arrivals` has, by job, when its results were stored, ascending, and `inputs` when the event of each was;
    of a job without any, events are taken to come evenly. `tolerance_s` is by how much two intervals differ
    without cause, a whole trigger interval: one event just meets a trigger, the next one just misses it.
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
