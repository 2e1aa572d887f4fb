"""Keeps one processor busy for a share of the time until it is killed: `cpu.py <percent>`."""

from __future__ import annotations

import sys
import time

REST_S = 0.02
"""Between looks at whether enough was used: short, so that the load is even."""

LONGEST_ARREAR_S = 0.2
"""Longest time that it makes up for when others had the processor, seconds of processor time."""


def main(percent: float) -> None:
    """Use as much processor time as was asked for, measured by the system's own account."""
    share = percent / 100
    began, used_before = time.monotonic(), time.process_time()
    while True:
        arrear_s = share * (time.monotonic() - began) - (time.process_time() - used_before)
        if arrear_s <= 0:
            time.sleep(REST_S)
            continue
        if arrear_s > LONGEST_ARREAR_S:
            began += (arrear_s - LONGEST_ARREAR_S) / share
        _burn(min(arrear_s, LONGEST_ARREAR_S))


def _burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(range(200))


if __name__ == "__main__":
    main(float(sys.argv[1]))
