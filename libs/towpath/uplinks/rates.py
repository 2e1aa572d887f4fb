"""Rate of an uplink, and the time until its backlog is through. Pure but for the clock."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

SPAN_S = 10.0
"""Seconds that are looked at: longer than a batch takes on a slow link."""


class Rate:
    """Bytes of the last seconds, and the course of the backlog."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._bytes: deque[tuple[float, int]] = deque()
        self._backlog: deque[tuple[float, int]] = deque()

    def add(self, size: int) -> None:
        """Count bytes that have arrived."""
        self._bytes.append((self._clock(), size))
        self._forget(self._bytes)

    def per_second(self) -> float:
        """Return bytes per second."""
        self._forget(self._bytes)
        return sum(size for _, size in self._bytes) / SPAN_S

    def through_s(self, backlog: int) -> float | None:
        """Return the seconds until a backlog that was this large at earlier calls, and is now, is through."""
        if backlog == 0:
            self._backlog.clear()
            return 0.0
        at = self._clock()
        self._forget(self._backlog)
        self._backlog.append((at, backlog))
        since, before = self._backlog[0]
        if before <= backlog or at <= since:
            return None
        return backlog * (at - since) / (before - backlog)

    def _forget(self, kept: deque[tuple[float, int]]) -> None:
        while kept and kept[0][0] < self._clock() - SPAN_S:
            kept.popleft()
