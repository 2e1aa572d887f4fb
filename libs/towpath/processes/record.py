"""Pid files: what runs under which name, found again by whoever asks."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
from pydantic import ValidationError

from towpath.contracts.message import Model

CLOCK_TOLERANCE_S = 1.5
"""The system counts a process's start from boot in ticks, and psutil adds the boot time, which clock
corrections shift by up to a second. A pid does not come round again that soon."""


class ContainerRecord(Model):
    """The container that a process is the first one of."""

    name: str
    docker_host: str | None = None
    """Where its daemon listens; null: where the environment says."""


class PidRecord(Model):
    """Content of a pid file."""

    pid: int
    """0 while it is only about to start: a container is listed before it is made."""
    create_time: float
    """When the process began, seconds since the epoch: tells it from a later one with the same pid."""
    name: str
    command: tuple[str, ...]
    version: str = ""
    restarts: int = 0
    """How many times it had been restarted when this run of it began."""
    container: ContainerRecord | None = None
    """Null for a process of this machine's that is in none."""

    @property
    def process(self) -> psutil.Process | None:
        """The live process this record speaks of, if it is still there."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.create_time) < CLOCK_TOLERANCE_S
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


def read_record(run: Path, name: str) -> PidRecord | None:
    """The pid file of `name`, whether or not the process lives. Unreadable ones count as absent."""
    try:
        return PidRecord.model_validate_json((run / f"{name}.json").read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def find(run: Path, name: str) -> PidRecord | None:
    """The record of the live process called `name`, or None."""
    record = read_record(run, name)
    return record if record is not None and record.process is not None else None


def listed(run: Path) -> list[PidRecord]:
    """All readable pid files, by name, also of processes that are gone."""
    records = (read_record(run, path.stem) for path in sorted(run.glob("[!.]*.json")))
    return [record for record in records if record is not None]


def write_record(run: Path, record: PidRecord) -> None:
    """Write a pid file, whole or not at all. Processes in no container write their own, see `claim`."""
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = run / f".{record.name}.json.{os.getpid()}"
    temporary.write_text(record.model_dump_json())
    temporary.replace(run / f"{record.name}.json")
