"""A clock that goes on while the machine sleeps."""

from __future__ import annotations

import time


def seconds_since_boot() -> float:
    """Return the time since the machine started, with the time that it slept.

    The clock of an event loop stands still while the machine sleeps. Others go on: a stream's memory of ids,
    and a sender's patience.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)
