"""Pid files: they record which process runs under which name, so that anyone can find it again."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from pydantic import ValidationError

from towpath.boot_clock import boot_id
from towpath.contracts.message import Model

CLOCK_TOLERANCE_S = 1.5
"""Tolerance in comparing the start times of processes.

The system counts a start from boot in ticks. psutil adds the boot time, which clock corrections shift by
up to a second. A pid is not used again that soon."""


def has_ended(process: psutil.Process) -> bool:
    """Return true if nothing of a process runs any more, whether its parent has reaped it or not.

    A zombie may have threads that are still writing to a slow disk. Until they end, its files are open, and
    it holds its name. Raises `psutil.NoSuchProcess` when it was reaped.
    """
    return process.status() == psutil.STATUS_ZOMBIE and process.num_threads() <= 1


class ContainerRecord(Model):
    """The container whose first process this is."""

    name: str
    docker_host: str | None = None
    """Address of its daemon. None: as the environment says."""


class ProcessIdentity(Model):
    """A process that is told from a later one with the same pid."""

    pid: int
    """0 before the start: a container is listed before it is created."""
    create_time: float
    """Start of the process, seconds since the epoch."""
    boot: str = ""
    """See `boot_id`. Empty in what an earlier version wrote."""

    @classmethod
    def of(cls, process: psutil.Process) -> ProcessIdentity:
        """Return the identity of a live process. Raises `psutil.NoSuchProcess`."""
        return cls(pid=process.pid, create_time=process.create_time(), boot=boot_id())

    @property
    def is_of_this_boot(self) -> bool:
        """False if the machine has started again since. Then nothing of the process is left."""
        return self.boot in ("", boot_id())

    @property
    def process(self) -> psutil.Process | None:
        """Return the live process, or None if it has ended."""
        if not self.is_of_this_boot:
            return None
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.create_time) < CLOCK_TOLERANCE_S
            return process if same and not has_ended(process) else None
        except psutil.NoSuchProcess:
            return None


class PidRecord(ProcessIdentity):
    """Content of a pid file."""

    name: str
    command: tuple[str, ...]
    version: str = ""
    restarts: int = 0
    """Number of restarts before this run began."""
    container: ContainerRecord | None = None
    """None for a process outside of containers."""


def read_record(run: Path, name: str) -> PidRecord | None:
    """Return the pid file of `name`, also for an ended process. An unreadable one counts as absent."""
    try:
        return PidRecord.from_json((run / f"{name}.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def find(run: Path, name: str) -> PidRecord | None:
    """Return the record of the live process called `name`, or None."""
    record = read_record(run, name)
    return record if record is not None and record.process is not None else None


def listed(run: Path) -> list[PidRecord]:
    """Return all readable pid files, by name, also those of ended processes."""
    records = (read_record(run, path.stem) for path in sorted(run.glob("[!.]*.json")))
    return [record for record in records if record is not None]


def write_record(run: Path, record: PidRecord) -> None:
    """Write a pid file, whole or not at all. Processes outside of containers write their own, see `claim`."""
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = run / f".{record.name}.json.{os.getpid()}"
    temporary.write_text(record.model_dump_json())
    temporary.replace(run / f"{record.name}.json")


def forget(run: Path, record: PidRecord) -> None:
    """Remove a pid file, unless it is that of a next process by now."""
    if read_record(run, record.name) == record:
        (run / f"{record.name}.json").unlink(missing_ok=True)
