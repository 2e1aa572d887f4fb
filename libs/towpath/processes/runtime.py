"""Run a child as a process beside its supervisor, or in a container. Both have one interface."""

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
    """Runs the children of one run directory. Every method may block for a moment."""

    def adoptable(self, spec: ChildSpec) -> PidRecord | None:
        """Return what runs under this child's name, no matter who started it and as which version."""
        ...

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """Start the child. Raises `TowpathError` when it does not start."""
        ...

    def runs(self, name: str) -> bool:
        """True if it runs. Asked many times a second."""
        ...

    def ending(self, name: str) -> str | None:
        """Return one line that tells how an ended child ended. None if that is not known."""
        ...

    def stop(self, name: str, *, grace_s: float) -> None:
        """End the child with everything it started. It has `grace_s` seconds to end in good order."""
        ...


class Processes:
    """Children as processes in sessions of their own."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        """Children of this very process, which it must reap."""
        self._codes: dict[str, int] = {}
        """Exit code of each child's last run."""

    def adoptable(self, spec: ChildSpec) -> PidRecord | None:
        """Return the record of its pid file."""
        return find(self._run, spec.name)

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """Start the process and keep it for reaping. Raises `TowpathError` when it does not start."""
        self._codes.pop(spec.name, None)
        started = self._started[spec.name] = child.launch(spec, self._run, restarts=restarts)
        record = read_record(self._run, spec.name)
        assert record is not None, "a process writes its pid file before `launch` returns"
        assert record.pid == started.pid
        return record

    def runs(self, name: str) -> bool:
        """True if the process lives: poll it if this one started it, else look at its pid file."""
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
        """Return its exit code or signal. Only a process's parent is told."""
        code = self._codes.get(name)
        if code is None:
            return None
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"

    def stop(self, name: str, *, grace_s: float) -> None:
        """End the process and its descendants. Kill it if its pid file was lost."""
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
        """Return the record of a container that already runs, or whose start was not written down."""
        return contained.adoptable(spec, self._run)

    def launch(self, spec: ChildSpec, *, restarts: int) -> PidRecord:
        """Start the container. Raises `TowpathError` when it does not start."""
        return contained.launch(spec, self._run, restarts=restarts)

    def runs(self, name: str) -> bool:
        """True if its first process lives. The daemon is not asked many times a second."""
        return find(self._run, name) is not None

    def ending(self, name: str) -> str | None:
        """Return what its daemon tells of its end."""
        record = read_record(self._run, name)
        return contained.ending(record) if record is not None and record.container is not None else None

    def stop(self, name: str, *, grace_s: float) -> None:
        """End and remove the container, as soon as its daemon answers."""
        stop(self._run, name, grace_s=grace_s)


class Runtimes:
    """The runtimes of one run directory. Each child says which one it needs."""

    def __init__(self, run: Path) -> None:
        self._processes: Runtime = Processes(run)
        self._containers: Runtime = Containers(run)

    def of(self, spec: ChildSpec) -> Runtime:
        """Return the runtime that runs this child."""
        return self._processes if spec.container is None else self._containers


def stop(run: Path, name: str, *, grace_s: float) -> bool:
    """End the process or container of this name, with all it started, and remove its pid file.

    It has `grace_s` seconds to end in good order and is then killed. Returns True if anything was running.
    Raises `TowpathError` when a container daemon refuses.
    """
    record = read_record(run, name)
    if record is not None and record.container is not None:
        return contained.stop(run, record, grace_s=grace_s)
    return child.stop(run, name, grace_s=grace_s)


def status(record: PidRecord) -> ProcessStatus:
    """Return the state of a pid file's process or container."""
    return contained.status(record) if record.container is not None else child.status(record)
