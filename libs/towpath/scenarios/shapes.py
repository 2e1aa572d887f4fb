"""Rates over time, and the moments at which events are due."""

from __future__ import annotations

import math
from collections.abc import Iterator

from towpath.contracts.scenario_load import Load, LoadShape, SyntheticLoad

_STEP_S = 0.01
"""For adding up rates: short beside any period."""


def rate_at(load: Load, at_s: float) -> float:
    """Events per second, so many seconds after the load began."""
    if not isinstance(load, SyntheticLoad) or load.shape is LoadShape.CONSTANT:
        return load.rate
    assert load.peak is not None
    assert load.period_s is not None
    if load.shape is LoadShape.RAMP:
        return load.rate + (load.peak - load.rate) * min(1.0, at_s / load.period_s)
    if load.shape is LoadShape.BURST:
        assert load.burst_s is not None
        return load.peak if at_s % load.period_s < load.burst_s else load.rate
    return load.rate + (load.peak - load.rate) * (1 - math.cos(2 * math.pi * at_s / load.period_s)) / 2


def due_times(load: Load) -> Iterator[float]:
    """Seconds after the beginning at which each event is due, without end: never descending."""
    at_s = 0.0
    while True:
        yield at_s
        at_s = _after(load, at_s)


def _after(load: Load, at_s: float) -> float:
    """When one more event is due: where the integral of the rate has grown by one."""
    left = 1.0
    while True:
        rate = rate_at(load, at_s)
        if rate * _STEP_S >= left:
            return at_s + left / rate
        left -= rate * _STEP_S
        at_s += _STEP_S


def planned(load: Load, since_s: float, until_s: float) -> float:
    """How many events are due between two moments, seconds after the beginning."""
    begin, end = max(0.0, since_s), max(0.0, until_s)
    steps = max(1, math.ceil((end - begin) / _STEP_S))
    width = (end - begin) / steps
    return sum(rate_at(load, begin + (step + 0.5) * width) for step in range(steps)) * width
