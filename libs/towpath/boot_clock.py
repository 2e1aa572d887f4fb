"""Seconds since the machine started, and the id of that start."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def seconds_since_boot() -> float:
    """Return the time since the machine started, with the time that it slept.

    The clock of an event loop stands still while the machine sleeps. Others go on: a stream's memory of ids,
    and a sender's patience.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """Return the kernel's id of this start of the machine; empty where it has none.

    After a restart, a process may have the pid and also the start time of an earlier one: many small
    machines have no clock that goes on while they are off.
    """
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""
