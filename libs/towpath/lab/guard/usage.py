"""Measures the share of their machine that the processes of a scope use."""

from __future__ import annotations

import psutil

from towpath.mesh.home import Home
from towpath.processes import listed
from towpath.telemetry.process_figures import ProcessFigures

CPU_PERCENT, MEMORY_PERCENT = "cpu_percent", "memory_percent"
"""Of the whole machine: 100 is all of its processors, and all of its memory."""


class Usage:
    """Measures the processes of one scope: those with a pid file, and what hangs below them.

    What hangs below a process of another scope is that scope's: a supervisor is not its sites.
    """

    def __init__(self, home: Home, scope: str) -> None:
        self._home = home
        self._scope = scope
        self._figures: ProcessFigures | None = None

    def measure(self) -> dict[str, float]:
        """Return the share since the last look; nothing at the first. Blocks for some milliseconds."""
        roots = {record.name: record.pid for record in listed(self._home.run) if record.process is not None}
        is_first, self._figures = self._figures is None, self._figures or ProcessFigures()
        figures = self._figures.look(roots)
        if is_first:
            return {}
        own = [figures[name] for name in roots if self._home.scope_of(name) == self._scope]
        cores = sum(each.get("process.cpu.utilization", 0.0) for each in own)
        memory = sum(each["process.memory.usage"] for each in own)
        return {
            CPU_PERCENT: round(100 * cores / (psutil.cpu_count() or 1), 2),
            MEMORY_PERCENT: round(100 * memory / psutil.virtual_memory().total, 2),
        }
