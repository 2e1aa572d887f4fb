"""Measures the share of their machine that the processes of a scope use."""

from __future__ import annotations

import contextlib
import time

import psutil

from towpath.mesh.home import Home
from towpath.processes import listed

CPU_PERCENT, MEMORY_PERCENT = "cpu_percent", "memory_percent"
"""Of the whole machine: 100 is all of its processors, and all of its memory."""


class Usage:
    """Measures the processes of one scope: those with a pid file, and what hangs below them.

    What hangs below a process of another scope is that scope's: a supervisor is not its sites.
    """

    def __init__(self, home: Home, scope: str) -> None:
        self._home = home
        self._scope = scope
        self._cpu_s: dict[psutil.Process, float] = {}
        """Seconds of processor time at the last look."""
        self._looked_at: float | None = None

    def measure(self) -> dict[str, float]:
        """Return the share since the last look; nothing at the first. Blocks for some milliseconds."""
        memory, cpu_s = 0, dict[psutil.Process, float]()
        for process in self._members():
            with contextlib.suppress(psutil.Error), process.oneshot():
                times = process.cpu_times()
                cpu_s[process] = times.user + times.system
                memory += process.memory_info().rss
        before, self._cpu_s = self._cpu_s, cpu_s
        began, self._looked_at = self._looked_at, time.monotonic()
        if began is None:
            return {}
        spent_s = sum(max(0.0, now - before.get(process, 0.0)) for process, now in cpu_s.items())
        available_s = (self._looked_at - began) * (psutil.cpu_count() or 1)
        return {
            CPU_PERCENT: round(100 * spent_s / max(available_s, 1e-9), 2),
            MEMORY_PERCENT: round(100 * memory / psutil.virtual_memory().total, 2),
        }

    def _members(self) -> list[psutil.Process]:
        names = {record.pid: record.name for record in listed(self._home.run) if record.process is not None}
        processes = list(psutil.process_iter(["ppid"]))
        parents = {process.pid: process.info["ppid"] for process in processes}
        return [process for process in processes if self._owns(process.pid, names, parents)]

    def _owns(self, pid: int | None, names: dict[int, str], parents: dict[int, int | None]) -> bool:
        """Return true if the nearest process with a pid file, from this one upwards, is of the scope."""
        while pid and pid not in names:
            pid = parents.get(pid)
        return bool(pid) and self._home.scope_of(names[pid]) == self._scope
