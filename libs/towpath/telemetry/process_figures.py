"""Measure what processes and their children use of the machine. Everything here blocks for milliseconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

import psutil

Identity = tuple[int, float]
"""A process id, and the begin of the process, because ids are used again."""


@dataclass(frozen=True)
class _Count:
    """Counters that only grow while a process lives: seconds of processor time, bytes."""

    cpu_s: float = 0.0
    read: float = 0.0
    written: float = 0.0

    def __add__(self, other: _Count) -> _Count:
        return _Count(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def since(self, before: _Count) -> _Count:
        """Return the growth since an earlier count."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        return _Count(*(max(0.0, now - then) for now, then in pairs))


class ProcessFigures:
    """Measures the same processes repeatedly, and keeps the last figures to compare with.

    Counters begin at 0 with the first look, and never fall when a child ends.
    """

    def __init__(self) -> None:
        self._counted: dict[Identity, _Count] = {}
        """Counters of every process at the last look."""
        self._totals: dict[str, _Count] = {}
        self._families = _Families()
        self._looked_at: float | None = None

    def look(self, roots: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Return name → values by metric, for processes given by name and id.

        A process that another root started counts for itself, not for both.
        """
        now, elapsed_s = time.monotonic(), 0.0
        if self._looked_at is not None:
            elapsed_s = now - self._looked_at
        is_first, self._looked_at = self._looked_at is None, now
        counted: dict[Identity, _Count] = {}
        values: dict[str, dict[str, float]] = {}
        members = self._families.of(roots)
        for name in roots:
            spent, memory = _Count(), 0
            for process in members[name]:
                with contextlib.suppress(psutil.Error):
                    identity, count, resident = _use(process)
                    counted[identity] = count
                    memory += resident
                    # A process that was not there at the last look has begun since.
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


class _Families:
    """Finds all processes that some roots have started.

    It looks at each process when it is new, and later only if it belongs to a root. A machine has hundreds of
    others, and looking at all of them takes ten times as long.
    """

    def __init__(self) -> None:
        self._roots: dict[str, int] = {}
        self._parents: dict[int, int | None] = {}
        """Every process, with its parent when the process was new."""
        self._owners: dict[int, str | None] = {}
        """Every process, with the root it belongs to."""
        self._members: dict[int, psutil.Process] = {}

    def of(self, roots: Mapping[str, int]) -> dict[str, list[psutil.Process]]:
        """Return each root with all processes below it, except those below another root."""
        there = set(psutil.pids())
        if dict(roots) != self._roots:
            self._roots, self._parents, self._owners, self._members = dict(roots), {}, {}, {}
        for pid in self._parents.keys() - there:
            self._forget(pid)
        for pid in there - self._parents.keys():
            self._parents[pid] = _parent(pid)
        self._owners |= {pid: name for name, pid in roots.items()}
        members: dict[str, list[psutil.Process]] = {name: [] for name in roots}
        for pid in there:
            name = self._owner(pid)
            process = None if name is None else self._process(pid)
            if name is not None and process is not None:
                members[name].append(process)
        return members

    def _owner(self, pid: int) -> str | None:
        """Return the root of a process. Remember it for each ancestor. None for those above all roots."""
        way: list[int] = []
        while pid not in self._owners:
            way.append(pid)
            parent = self._parents.get(pid)
            if parent is None or parent in way:
                self._owners[pid] = None
            else:
                pid = parent
        owner = self._owners[pid]
        self._owners.update(dict.fromkeys(way, owner))
        return owner

    def _process(self, pid: int) -> psutil.Process | None:
        """Return None if the process has ended or another has its id. That one is looked at next time."""
        with contextlib.suppress(psutil.Error):
            process = self._members.get(pid) or psutil.Process(pid)
            if process.is_running():
                self._members[pid] = process
                return process
        self._forget(pid)
        return None

    def _forget(self, pid: int) -> None:
        for known in (self._parents, self._owners, self._members):
            known.pop(pid, None)


def _parent(pid: int) -> int | None:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).ppid()
    return None


def _use(process: psutil.Process) -> tuple[Identity, _Count, int]:
    """Return a process's identity, counters and resident bytes. Raises `psutil.Error` when it has ended."""
    with process.oneshot():
        times = process.cpu_times()
        read = written = 0
        # Some systems do not tell, and none tells of other users' processes.
        with contextlib.suppress(psutil.AccessDenied, AttributeError):
            io = process.io_counters()
            read, written = io.read_bytes, io.write_bytes
        count = _Count(times.user + times.system, float(read), float(written))
        return (process.pid, process.create_time()), count, process.memory_info().rss


class MachineFigures:
    """Measures the machine that a site runs on."""

    def __init__(self, directory: Path, charge: Callable[[], float | None] = lambda: None) -> None:
        """Measure the disk of `directory`, where the site keeps its data, and the rest of the machine.

        `charge` returns the share that its battery has left; None if it has none, or that is not known.
        """
        self._directory = directory
        self._charge = charge
        self._before: tuple[float, float] | None = None

    def look(self) -> dict[str, float]:
        """Return values by metric. The processors' load is among them from the second call on."""
        now, busy_s = time.monotonic(), _busy_s(psutil.cpu_times())
        before, self._before = self._before, (now, busy_s)
        values = {
            "site.memory.available": float(psutil.virtual_memory().available),
            "site.disk.free": float(psutil.disk_usage(str(self._directory)).free),
        }
        if (charge := self._charge()) is not None:
            values["site.battery.charge"] = charge
        if before is not None and now > before[0]:
            values["site.cpu.utilization"] = max(0.0, busy_s - before[1]) / (now - before[0])
        return values


def battery_charge(file: Path | None = None) -> float | None:
    """Return the share that the machine's battery has left, from a file with percent if there is one."""
    if file is None:
        # Systems without a battery, or without a way to ask, have no such function or answer None.
        battery = getattr(psutil, "sensors_battery", lambda: None)()
        return None if battery is None else battery.percent / 100
    try:
        percent = float(file.read_text())
    except (OSError, ValueError):
        return None
    return percent / 100 if 0 <= percent <= 100 else None


_IDLE = ("idle", "iowait", "guest", "guest_nice")
"""A guest's time is not added: it is contained in that of the user who runs it."""


def _busy_s(times: Iterable[float]) -> float:
    """Return the seconds that all processors together have worked."""
    fields: tuple[str, ...] = getattr(times, "_fields", ())
    return sum(value for name, value in zip(fields, times, strict=True) if name not in _IDLE)
