"""One process that outlives its parent: start it, find it again, end it with all its descendants.

Everything here may block for a moment. Under an event loop, call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import psutil

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import ProcessStatus
from towpath.processes import claim
from towpath.processes.record import CLOCK_TOLERANCE_S, PidRecord, forget, has_ended, read_record
from towpath.processes.spec import ChildSpec
from towpath.tasks import NotInTime, wait_until

CLAIM_DEADLINE_S = 60.0
"""Time for an interpreter to start on a machine where everything else starts, too. One that dies is noticed
at once."""

LEFTOVER_GRACE_S = 1.0
"""Time for descendants that remain after their leader has ended in good order."""

LOOK_EVERY_S = 0.01
"""Pause between two looks at a process that starts or ends."""


def rotate_log(log: Path) -> None:
    """Keep the log of the previous run as `<log>.1`, and drop the one before that."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if log.stat().st_size:
            log.replace(log.with_name(log.name + ".1"))


def launch(spec: ChildSpec, run: Path, *, restarts: int = 0) -> subprocess.Popen[bytes]:
    """Start the process in a session of its own. Return when its pid file is written.

    Keep the returned object and poll it, so that the process is reaped when it ends. Raises
    `TowpathError`: busy if a process of that name runs already, failed if it cannot start.
    """
    run.mkdir(parents=True, exist_ok=True, mode=0o700)
    rotate_log(spec.log)
    with spec.log.open("ab") as output:
        started = subprocess.Popen(
            starting_command(spec, run, restarts=restarts),
            env={**os.environ, **spec.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    _await_claim(spec, run, started)
    return started


def starting_command(spec: ChildSpec, run: Path, *, restarts: int = 0) -> list[str]:
    """Return the command that becomes the process, unless one of its name runs already."""
    facts = (spec.name, spec.version, str(restarts), str(spec.niceness))
    return [sys.executable, "-I", claim.__file__, str(run), *facts, *spec.command]


def _await_claim(spec: ChildSpec, run: Path, started: subprocess.Popen[bytes]) -> None:
    def is_claimed() -> bool:
        record = read_record(run, spec.name)
        return record is not None and record.pid == started.pid

    with contextlib.suppress(NotInTime):
        wait_until(lambda: is_claimed() or started.poll() is not None, CLAIM_DEADLINE_S, LOOK_EVERY_S)
    if is_claimed():
        return
    if started.poll() == claim.ALREADY_CLAIMED:
        raise TowpathError(
            ErrorCode.BUSY, f"{spec.name} runs already", field="name", value=spec.name, allowed="one"
        )
    started.kill()
    started.wait()
    raise TowpathError(
        ErrorCode.FAILED, f"{spec.name} did not start: read {spec.log}", field="name", value=spec.name
    )


def stop(run: Path, name: str, *, grace_s: float) -> bool:
    """End the process called `name` and all its descendants, and remove its pid file.

    The process gets SIGTERM and has `grace_s` seconds to end its own children in good order. Whatever then
    remains of its tree is killed. Returns True if anything was running.
    """
    record = read_record(run, name)
    if record is None:
        return False
    leader = record.process
    tree = _tree(record)
    if leader is not None:
        _signal([leader], psutil.Process.terminate)
        _gone([leader], grace_s)
    survivors = _alive([*tree, *_tree(record)])
    if leader is not None and leader not in survivors:
        _signal(survivors, psutil.Process.terminate)
        _gone(survivors, min(LEFTOVER_GRACE_S, grace_s))
    kill_all(survivors)
    forget(run, record)
    return bool(tree)


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill processes, and then those that they started meanwhile."""
    remaining = list(processes)
    while remaining:
        offspring = [child for process in remaining for child in _children(process)]
        _signal(remaining, psutil.Process.kill)
        _gone(remaining, 5.0)
        remaining = _alive(offspring)


def _tree(record: PidRecord) -> list[psutil.Process]:
    """Return the process, its descendants, and those of its session whose parents have died."""
    if not record.is_of_this_boot:
        return []
    leader = record.process
    members = [] if leader is None else [leader, *_children(leader)]
    if leader is not None or not psutil.pid_exists(record.pid):
        members += [p for p in _session(record) if p not in members]
    return members


def _session(record: PidRecord) -> list[psutil.Process]:
    """Return live members of the session that the process leads or led.

    The kernel does not reuse a pid while a session has it. So the session belongs to this record unless its
    leader is another process. Members cannot be older than the leader.
    """
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) != record.pid:
                continue
            if process.create_time() > record.create_time - CLOCK_TOLERANCE_S:
                found += [process, *_children(process)]
    return _alive(found)


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    living: list[psutil.Process] = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process not in living and process.is_running() and not has_ended(process):
                living.append(process)
    return living


def _signal(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            send(process)


def _gone(processes: list[psutil.Process], within_s: float) -> None:
    """Wait until all have ended, zombies included: their parents reap them in their own time."""
    with contextlib.suppress(NotInTime):
        wait_until(lambda: not _alive(processes), within_s, LOOK_EVERY_S)


def status(record: PidRecord) -> ProcessStatus:
    """Return the state of a pid file's process, with the memory of its whole tree."""
    process = record.process
    if process is None:
        return ProcessStatus(name=record.name, pid=None, running=False, restarts=record.restarts)
    memory = 0
    for member in [process, *_children(process)]:
        with contextlib.suppress(psutil.Error):
            memory += member.memory_info().rss
    return ProcessStatus(
        name=record.name,
        pid=record.pid,
        running=True,
        restarts=record.restarts,
        memory_mb=round(memory / 1e6, 1),
    )
