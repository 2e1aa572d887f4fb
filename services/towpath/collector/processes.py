"""What the processes beside the hub use: the servers and the services, each with what hangs below it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import psutil

from towpath.contracts.faults import HUB_SCOPE
from towpath.contracts.message import now
from towpath.contracts.metrics import Sample
from towpath.guard.scopes import scope_of
from towpath.mesh.home import Home
from towpath.processes import PidRecord, listed


@dataclass
class _Used:
    """By one process of the mesh and its children."""

    cpu_s: dict[int, float] = field(default_factory=dict)
    """Process id → seconds of processor time since it began."""
    memory: int = 0
    read: int = 0
    written: int = 0


class Processes:
    """Measures again and again; what counts from the one look to the next is kept in between."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._looked_at: float | None = None
        self._cpu_s: dict[str, dict[int, float]] = {}
        """Process of the mesh → as `_Used.cpu_s`, at the last look."""

    def measure(self) -> list[Sample]:
        """How all are now. Blocks for some milliseconds."""
        living = [record for record in listed(self._home.run) if record.process is not None]
        records = {r.name: r for r in living if scope_of(self._home, r.name) == HUB_SCOPE}
        used = {name: _Used() for name in records}
        # What hangs below a site's process is the site's, also when that hangs below one of ours.
        for process, owner in _owned({record.pid: record.name for record in living}):
            if owner in used:
                _add(used[owner], process)
        at = now().timestamp()
        samples = [
            Sample(entity=f"process:{name}", metric=metric, at=at, value=value)
            for name, record in records.items()
            for metric, value in self._values(name, record, used[name], at).items()
        ]
        self._looked_at, self._cpu_s = at, {name: each.cpu_s for name, each in used.items()}
        return samples

    def _values(self, name: str, record: PidRecord, used: _Used, at: float) -> dict[str, float]:
        values: dict[str, float] = {
            "process.memory.usage": used.memory,
            "process.disk.read": used.read,
            "process.disk.written": used.written,
            "process.restarts": record.restarts,
        }
        before = self._cpu_s.get(name)
        if before is not None and self._looked_at is not None and at > self._looked_at:
            spent_s = sum(max(0.0, cpu_s - before.get(pid, 0.0)) for pid, cpu_s in used.cpu_s.items())
            values["process.cpu.utilization"] = spent_s / (at - self._looked_at)
        return values


def _owned(owners: dict[int, str]) -> list[tuple[psutil.Process, str]]:
    """Every process below one of the mesh, with the name of the nearest such one above it."""
    processes = list(psutil.process_iter(["ppid"]))
    parents: dict[int, int | None] = {process.pid: process.info["ppid"] for process in processes}
    found: list[tuple[psutil.Process, str]] = []
    for process in processes:
        pid: int | None = process.pid
        while pid and pid not in owners:
            pid = parents.get(pid)
        if pid:
            found.append((process, owners[pid]))
    return found


def _add(used: _Used, process: psutil.Process) -> None:
    # It may end at any moment, and another user's tells less.
    with contextlib.suppress(psutil.Error), process.oneshot():
        times = process.cpu_times()
        used.cpu_s[process.pid] = times.user + times.system
        used.memory += process.memory_info().rss
        counters = process.io_counters()
        used.read += counters.read_bytes
        used.written += counters.write_bytes
