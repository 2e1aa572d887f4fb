"""Rates over time, and the moments at which events are due."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from towpath.contracts.scenario_load import Load, LoadShape, SyntheticLoad

PresentLoad = Callable[[], Load]
"""Returns a load as it is now: its rate may change while it is sent."""

_LONGEST_STEP_S = 0.01
_STEPS_OF_A_BURST, _STEPS_OF_A_PERIOD = 50, 200
"""Rates are added up in steps that are short beside what they go by."""


def rate_at(load: Load, at_s: float) -> float:
    """Return the events per second, `at_s` seconds after the load began."""
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


def due_times(present: PresentLoad) -> Iterator[float]:
    """Yield the seconds after the beginning at which each event is due. They never descend or end."""
    at_s, step_s = 0.0, _step_s(present())
    while True:
        yield at_s
        at_s = _after(present(), at_s, step_s)


def _step_s(load: Load) -> float:
    if not isinstance(load, SyntheticLoad) or load.period_s is None:
        return _LONGEST_STEP_S
    burst_s = load.period_s if load.burst_s is None else load.burst_s
    shortest = min(load.period_s / _STEPS_OF_A_PERIOD, burst_s / _STEPS_OF_A_BURST)
    return max(min(_LONGEST_STEP_S, shortest), 1e-4)


def _after(load: Load, at_s: float, step_s: float) -> float:
    """Return the moment when the integral of the rate has grown by one event."""
    left = 1.0
    while True:
        rate = rate_at(load, at_s)
        if rate * step_s >= left:
            return at_s + left / rate
        left -= rate * step_s
        at_s += step_s


def planned(load: Load, since_s: float, until_s: float) -> float:
    """Return the number of events that are due between two moments, in seconds after the beginning."""
    over_s = math.inf if isinstance(load, SyntheticLoad) else load.length / load.rate
    begin, end = (min(max(0.0, at_s), over_s) for at_s in (since_s, until_s))
    steps = max(1, math.ceil((end - begin) / _step_s(load)))
    width = (end - begin) / steps
    return sum(rate_at(load, begin + (step + 0.5) * width) for step in range(steps)) * width
