"""Sampling ratios of a query's spouts: the second step of RAINBOW's query-driven placement (D4.2).

F itself cannot gain from sampling: L is at least the longest latency times its spout's ratio, and F divides L
by the smallest ratio. So this step lowers L as far as F stays as it is. The source does not name its
objective; this is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

LEAST_RATIO = 0.1

_HALVINGS = 60
"""As many as a double has digits, and some more."""


def sampling_ratios(latencies_ms: Sequence[float], least_average: float) -> tuple[float, ...]:
    """Return for each spout the share of its data to keep.

    Minimises L = max(latency × ratio) with F unchanged, ratios from 0.1 to 1, and an average of at least
    `least_average`. With a cap c, a spout keeps min(1, c / latency), so only slow ones are sampled; c is the
    smallest that keeps the average and the least ratio, found by bisection.
    """
    if not latencies_ms or min(latencies_ms) < 0:
        raise ValueError("sampling ratios need at least one latency, and none that is negative")
    if not 0 <= least_average <= 1:
        raise ValueError(f"the average share must be from 0 to 1, not {least_average}")
    too_low, cap_ms = 0.0, max(latencies_ms)
    for _ in range(_HALVINGS):
        middle = (too_low + cap_ms) / 2
        if _suffices(_capped(latencies_ms, middle), least_average):
            cap_ms = middle
        else:
            too_low = middle
    return _capped(latencies_ms, cap_ms)


def _capped(latencies_ms: Sequence[float], cap_ms: float) -> tuple[float, ...]:
    return tuple(1.0 if latency <= cap_ms else cap_ms / latency for latency in latencies_ms)


def _suffices(ratios: tuple[float, ...], least_average: float) -> bool:
    return min(ratios) >= LEAST_RATIO and sum(ratios) / len(ratios) >= least_average
