"""Two ways to run a child: as a process beside its supervisor, or in a container. One interface for both."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Protocol

import psutil

from towpath.contracts.site import ProcessStatus
from towpath.processes import child, contained
from towpath.processes.record import PidRecord, find, read_record
from towpath.processes.spec import ChildSpec


class Runtime(Protocol):
    """How the children of one run directory are run. Everything may block for a moment."""

    def adoptable(self, spec: ChildSpec) -> PidRecord | None:
        """What runs under the name of this child, started by whomever, as whatever it was then."""
        ...

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """Start it. Raises `TowpathError` when it cannot be."""
        ...

    def runs(self, name: str) -> bool:
        """Whether it is there. Asked many times a second."""
        ...

    def ending(self, name: str) -> str | None:
        """How one that is not there any more has ended, in one line; None if nobody knows."""
        ...

    def stop(self, name: str, *, grace_s: float) -> None:
        """End it with everything it started; what is asked to end has `grace_s` seconds."""
        ...


class Processes:
    """Children as processes in sessions of their own."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        """Those that are children of this very process, and must be reaped."""
        self._codes: dict[str, int] = {}
        """How the last of them ended."""

    def adoptable(self, spec: ChildSpec) -> PidRecord | None:
        """By its pid file."""
        return find(self._run, spec.name)

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """See `child.launch`."""
        self._codes.pop(spec.name, None)
        started = self._started[spec.name] = child.launch(spec, self._run, restarts=restarts)
        record = read_record(self._run, spec.name)
        assert record is not None, "a process writes its pid file before `launch` returns"
        assert record.pid == started.pid
        return record

    def runs(self, name: str) -> bool:
        """By the process itself if it is ours, else by its pid file."""
        started = self._started.get(name)
        if started is None:
            return find(self._run, name) is not None
        code = started.poll()
        if code is None:
            return True
        self._codes[name] = code
        del self._started[name]
        return False

    def ending(self, name: str) -> str | None:
        """By its exit code, which only its parent is told."""
        code = self._codes.get(name)
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def stop(self, name: str, *, grace_s: float) -> None:
        """See `child.stop`. One whose pid file was lost is killed."""
        stop(self._run, name, grace_s=grace_s)
        started = self._started.pop(name, None)
        if started is None:
            return
        if started.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill_all([psutil.Process(started.pid)])
        started.wait()


class Containers:
    """Children in containers, each at the daemon that its `Container` names."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def adoptable(self, spec: ChildSpec) -> PidRecord | None:
        """See `contained.adoptable`."""
        return contained.adoptable(spec, self._run)

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """See `contained.launch`."""
        return contained.launch(spec, self._run, restarts=restarts)

    def runs(self, name: str) -> bool:
        """By its first process: the daemon is not asked many times a second."""
        return find(self._run, name) is not None

    def ending(self, name: str) -> str | None:
        """As the daemon tells."""
        record = read_record(self._run, name)
        return contained.ending(record) if record is not None and record.container is not None else None

    def stop(self, name: str, *, grace_s: float) -> None:
        """See `contained.stop`."""
        stop(self._run, name, grace_s=grace_s)


class Runtimes:
    """The runtimes of one run directory; which one a child needs, it says itself."""

    def __init__(self, run: Path) -> None:
        self._processes: Runtime = Processes(run)
        self._containers: Runtime = Containers(run)

    def of(self, spec: ChildSpec) -> Runtime:
        """The runtime that this child is to run in."""
        return self._processes if spec.container is None else self._containers


def stop(run: Path, name: str, *, grace_s: float) -> bool:
    """End what runs under a name, process or container, with all it started; remove its pid file.

    It is asked to end, and has `grace_s` seconds to do so in good order; then it is killed. Returns whether
    anything was running. Raises `TowpathError` when a container daemon refuses.
    """
    record = read_record(run, name)
    if record is not None and record.container is not None:
        return contained.stop(run, record, grace_s=grace_s)
    return child.stop(run, name, grace_s=grace_s)


def status(record: PidRecord) -> ProcessStatus:
    """How what a pid file speaks of is."""
    return contained.status(record) if record.container is not None else child.status(record)
