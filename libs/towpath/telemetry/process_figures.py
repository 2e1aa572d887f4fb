"""What processes and their children use of the machine. Everything here blocks for some milliseconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

Identity = tuple[int, float]
"""A process id, and when the process began: ids come round again."""


@dataclass(frozen=True)
class _Count:
    """What only grows as long as a process lives: seconds of processor time, bytes."""

    cpu_s: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: _Count) -> _Count:
        return _Count(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: _Count) -> _Count:
        """What was added."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return _Count(*(max(0.0, now - then) for now, then in pairs))


class ProcessFigures:
    """Looks at the same processes again and again, and keeps what it must compare.

    Counters begin at 0 with the first look, and never fall when a child ends.
    """

    def __init__(self) -> None:
        self._counted: dict[Identity, _Count] = {}
        """Every process as it was at the last look."""
        self._totals: dict[str, _Count] = {}
        self._looked_at: float | None = None

    def look(self, roots: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Name → values by metric, for processes given by name and id. A process that another root started
        counts for itself, not for both."""
        now, elapsed_s = time.monotonic(), 0.0
        if self._looked_at is not None:
            elapsed_s = now - self._looked_at
        is_first, self._looked_at = self._looked_at is None, now
        counted: dict[Identity, _Count] = {}
        values: dict[str, dict[str, float]] = {}
        members = _members(roots)
        for name in roots:
            spent, memory = _Count(), 0
            for process in members[name]:
                with contextlib.suppress(psutil.Error):
                    identity, count, resident = _use(process)
                    counted[identity] = count
                    memory += resident
                    # One that was not there at the last look has begun since.
                    before = self._counted.get(identity, count if is_first else _Count())
                    spent += count.since(before)
            values[name] = self._values(name, spent, memory, elapsed_s)
        self._counted = counted
        return values

    def _values(self, name: str, spent: _Count, memory: int, elapsed_s: float) -> dict[str, float]:
        total = self._totals[name] = self._totals.get(name, _Count()) + spent
        values = {
            "process.memory.usage": float(memory),
            "process.disk.read": total.read,
            "process.disk.written": total.written,
        }
        return values | ({"process.cpu.utilization": spent.cpu_s / elapsed_s} if elapsed_s > 0 else {})


def _members(roots: Mapping[str, int]) -> dict[str, list[psutil.Process]]:
    """Each root with all processes below it that are not below another root on the way."""
    processes = {process.pid: process for process in psutil.process_iter(["ppid"])}
    owners: dict[int, str | None] = {pid: name for name, pid in roots.items()}

    def owner(pid: int) -> str | None:
        """Remembered for each on the way up; None above all of them."""
        way: list[int] = []
        while pid not in owners:
            way.append(pid)
            parent = processes[pid].info["ppid"] if pid in processes else None
            if parent is None or parent in way:
                owners[pid] = None
            else:
                pid = parent
        owners.update(dict.fromkeys(way, owners[pid]))
        return owners[pid]

    members: dict[str, list[psutil.Process]] = {name: [] for name in roots}
    for pid, process in processes.items():
        name = owner(pid)
        if name is not None:
            members[name].append(process)
    return members


def _use(process: psutil.Process) -> tuple[Identity, _Count, int]:
    """A process, its counters, and its resident memory in bytes. Raises `psutil.Error` when it has ended."""
    with process.oneshot():
        times = process.cpu_times()
        read = written = 0
        # Not every system tells, and none of somebody else's.
        with contextlib.suppress(psutil.AccessDenied, AttributeError):
            io = process.io_counters()
            read, written = io.read_bytes, io.write_bytes
        count = _Count(times.user + times.system, float(read), float(written))
        return (process.pid, process.create_time()), count, process.memory_info().rss


class MachineFigures:
    """The machine that a site runs on."""

    def __init__(self, directory: Path) -> None:
        """`directory`: where the site keeps its data."""
        self._directory = directory
        self._before: tuple[float, float] | None = None

    def look(self) -> dict[str, float]:
        """Values by metric; the processors from the second look on."""
        now, busy_s = time.monotonic(), _busy_s(psutil.cpu_times())
        before, self._before = self._before, (now, busy_s)
        values = {
            "site.memory.available": float(psutil.virtual_memory().available),
            "site.disk.free": float(psutil.disk_usage(str(self._directory)).free),
        }
        if before is not None and now > before[0]:
            values["site.cpu.utilization"] = max(0.0, busy_s - before[1]) / (now - before[0])
        return values


_IDLE = ("idle", "iowait", "guest", "guest_nice")
"""A guest's time is also in that of the user who runs it."""


def _busy_s(times: Iterable[float]) -> float:
    """Seconds that all processors together have worked."""
    fields: tuple[str, ...] = getattr(times, "_fields", ())
    return sum(value for name, value in zip(fields, times, strict=True) if name not in _IDLE)
