"""The clock of a process, which rules may set off. Code that carries rules out goes by `real_time`."""

from __future__ import annotations

import time

real_time = time.time
"""Unix seconds by the machine's clock, whatever rules do."""

real_time_ns = time.time_ns
"""The same in nanoseconds."""

_skews: dict[str, float] = {}


def skew(owner: str, seconds: float) -> None:
    """Set the clock off by so many seconds for `owner`, in addition to what others do; 0 ends it.

    It is the time that messages carry, `time.time` and `time.time_ns` that change: not the clock that
    timeouts go by, nor `datetime.now`, which is compiled in, nor what was imported by name before.
    """
    if seconds:
        _skews[owner] = seconds
    else:
        _skews.pop(owner, None)
    total = skewed_by()
    time.time = _skewed_time if total else real_time
    time.time_ns = _skewed_time_ns if total else real_time_ns


def skewed_by() -> float:
    """By how much the clock is off now, seconds; positive: ahead."""
    return sum(_skews.values())


def _skewed_time() -> float:
    return real_time() + skewed_by()


def _skewed_time_ns() -> int:
    return real_time_ns() + round(skewed_by() * 1e9)
