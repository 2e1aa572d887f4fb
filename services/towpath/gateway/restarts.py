"""When to restart a process that ends by itself: after a delay that grows with each short run."""

from __future__ import annotations

import signal
from dataclasses import dataclass

FIRST_S, MOST_S = 1.0, 60.0
"""Delay before a restart. It doubles with each run that ends soon."""

STEADY_S = 60.0
"""A run of this length is no part of a crash loop."""

CRASH_LOOP = 4
"""So many short runs in a row are a crash loop, which is reported."""


@dataclass
class Restarts:
    """The runs of one process."""

    count: int = 0
    """Runs that have ended by themselves."""
    _short_runs: int = 0

    def ended(self, after_s: float) -> None:
        """Note that a run has ended."""
        self.count += 1
        self._short_runs = 1 if after_s > STEADY_S else self._short_runs + 1

    @property
    def is_loop(self) -> bool:
        """True if the last runs were all short."""
        return self._short_runs >= CRASH_LOOP

    @property
    def delay_s(self) -> float:
        """Time to wait before the next run."""
        return min(FIRST_S * 2 ** max(0, self._short_runs - 1), MOST_S)


def ending(code: int) -> str:
    """Return how a process ended, for people. A negative return code is the signal that ended it."""
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
