"""One container that outlives its starter: start it, find it again, end it, tell why it ended.

It has a pid file like any process, with the container's first process in it. Code that lists, measures or
ends processes need not know the difference. The pid file is written before the container is created. So a
starter killed in between leaves no container that is not listed. The container also has the process's
name, so there are never two.

The daemon is asked only where looking at a process would not do. So a daemon's outage ends nothing.

Everything here may block. Under an event loop, call it through `asyncio.to_thread`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path

import psutil

from towpath.containers import images, running
from towpath.containers.running import MEGABYTE, Description, Look
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import ProcessStatus
from towpath.processes import child
from towpath.processes.record import (
    ContainerRecord,
    PidRecord,
    ProcessIdentity,
    forget,
    read_record,
    write_record,
)
from towpath.processes.spec import ChildSpec, Container
from towpath.tasks import NotInTime, wait_until

LABEL_HOME, LABEL_PROCESS, LABEL_VERSION = "towpath.home", "towpath.process", "towpath.version"
"""Labels of each container: the mesh's directory, the name of the process, and its version."""

ACCOUNTS = (Path("/etc/passwd"), Path("/etc/group"))
"""Mounted because a process of this machine's user runs inside, and Java looks up its name."""

KILLED = 128
"""Exit codes above this are signals."""

PASSED_ON = ("TOWPATH_LOG", "PYTHONUNBUFFERED", "TZ")
PASSED_ON_PREFIX = "OTEL_"
"""Prefix of variables passed on from this environment: they say how telemetry is exported.

All others belong to this machine, and the image has its own."""

NOTICED_S = 5.0
"""Time for the daemon to notice that a container's first process has ended. Only then it knows why."""

FIRST_PROCESS_S = 5.0
"""Time for the first process of a container to appear."""

LOOK_EVERY_S = 0.05
"""Pause between two questions to the daemon."""


def container_name(container: Container, process: str) -> str:
    """Return the name that the daemon knows a process's container by."""
    digest = hashlib.blake2b(str(container.home).encode(), digest_size=4).hexdigest()
    return f"towpath-{digest}-{process}"


def launch(spec: ChildSpec, run: Path, *, restarts: int = 0) -> PidRecord:
    """Start the container and return its record.

    Raises `TowpathError`: no daemon, no such image, or it ended at once.
    """
    container = _of(spec)
    images.ensure(container.image, container.image_archive, container.docker_host)
    child.rotate_log(spec.log)
    spec.log.touch()
    name = container_name(container, spec.name)
    record = PidRecord(
        pid=0,
        create_time=0.0,
        name=spec.name,
        command=spec.command,
        version=spec.kept_version,
        restarts=restarts,
        container=ContainerRecord(name=name, docker_host=container.docker_host),
    )
    write_record(run, record)
    # If SIGKILL strikes here or below, the name is listed, so `adoptable` finds it and `stop` removes it. A
    # container that has the name already belongs to a mesh whose directory, with its pid files, was deleted.
    running.remove(name, grace_s=0, host=container.docker_host)
    running.create(_description(spec, container, name), container.docker_host)
    return _recorded(run, record, running.start(name, container.docker_host), spec.log)


def adoptable(spec: ChildSpec, run: Path) -> PidRecord | None:
    """Return the record of a container that already runs, even if its start was not written down.

    Raises `TowpathError` if only the daemon could tell, and it does not answer.
    """
    record = read_record(run, spec.name)
    if record is None or record.process is not None:
        return record
    if record.container is None:
        return None
    found = running.look(record.container.name, record.container.docker_host)
    if found is None or not found.running or found.labels.get(LABEL_VERSION) != record.version:
        return None
    return _recorded(run, record, found, spec.log)


def stop(run: Path, record: PidRecord, *, grace_s: float) -> bool:
    """End and remove the container and its pid file. Return True if it ran.

    Without its daemon, the processes in it are ended and the pid file stays. The next caller removes the
    container. Raises `TowpathError` when the daemon answers and refuses.
    """
    assert record.container is not None
    process = record.process
    try:
        ran = running.remove(record.container.name, grace_s=grace_s, host=record.container.docker_host)
    except TowpathError as error:
        if not error.detail.retryable:
            raise
        if process is not None:
            _end(process, grace_s)
        return process is not None
    forget(run, record)
    return ran


def ending(record: PidRecord) -> str:
    """Return one line that tells how a container has ended."""
    assert record.container is not None
    look = partial(running.look, record.container.name, record.container.docker_host)
    try:
        with contextlib.suppress(NotInTime):
            wait_until(lambda: (seen := look()) is None or not seen.running, NOTICED_S, LOOK_EVERY_S)
        found = look()
    except TowpathError as error:
        return f"its container has ended for an unknown reason: {error.detail.message}"
    if found is None:
        return "its container was removed"
    return _told(found)


def status(record: PidRecord) -> ProcessStatus:
    """Return the state of a pid file's container, with the memory that counts for its limit."""
    assert record.container is not None
    if record.process is None:
        return child.status(record)
    name, host = record.container.name, record.container.docker_host
    try:
        found, used = running.look(name, host), running.memory_bytes(name, host)
    except TowpathError:
        return child.status(record)  # It runs, even if its daemon does not answer.
    lost = "a process in it was killed for lack of memory" if found and found.out_of_memory else None
    return ProcessStatus(
        name=record.name,
        pid=record.pid,
        running=True,
        restarts=record.restarts,
        memory_mb=round(used / 1e6, 1),
        error=lost,
    )


def _of(spec: ChildSpec) -> Container:
    if spec.container is None:
        raise TowpathError(ErrorCode.INVALID, "not a container", field="name", value=spec.name)
    return spec.container


def _description(spec: ChildSpec, container: Container, name: str) -> Description:
    passed_on = {
        key: value
        for key, value in os.environ.items()
        if key in PASSED_ON or key.startswith(PASSED_ON_PREFIX)
    }
    return Description(
        name=name,
        image=container.image,
        command=_inside(spec.command),
        log=spec.log,
        mounts=container.mounts,
        read_only=(*ACCOUNTS, *container.read_only),
        environment={"HOME": "/tmp", **passed_on, **spec.environment},
        labels={
            LABEL_HOME: str(container.home),
            LABEL_PROCESS: spec.name,
            LABEL_VERSION: spec.kept_version,
        },
        limits=container.limits,
        niceness=spec.niceness,
        user=f"{os.getuid()}:{os.getgid()}",
        init=container.starts_others,
        beside=running.own_id(container.docker_host),
    )


def _inside(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command with the image's program instead of this machine's."""
    program = "python" if command[0] == sys.executable else Path(command[0]).name
    return (program, *command[1:])


def _recorded(run: Path, record: PidRecord, found: Look, log: Path) -> PidRecord:
    """Record the first process of a running container. Raises `TowpathError` (failed) if there is none."""
    end = time.monotonic() + FIRST_PROCESS_S
    host = record.container.docker_host if record.container else None
    first = _inner_pid if running.own_id(host) else _outer_pid
    while found.running and time.monotonic() < end:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(first(found))
            started = record.model_copy(update=ProcessIdentity.of(process).model_dump())
            write_record(run, started)
            return started
        time.sleep(0.02)
        found = running.look(found.id, host) or found
    raise TowpathError(
        ErrorCode.FAILED,
        f"{record.name} did not start: {_told(found)}; read {log}",
        field="name",
        value=record.name,
    )


def _outer_pid(found: Look) -> int:
    """Return the first process's pid on the daemon's machine, which is this one."""
    return found.pid


def _inner_pid(found: Look) -> int:
    """Return the first process's pid as seen from a container beside it: the oldest of its control group."""
    members: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if found.id in Path(f"/proc/{process.pid}/cgroup").read_text():
                members.append(process)
    return min(members, key=_age).pid if members else 0


def _age(process: psutil.Process) -> tuple[float, int]:
    return process.create_time(), process.pid


def _told(found: Look) -> str:
    if found.out_of_memory:
        allowed = (
            f"the {found.memory_bytes / MEGABYTE:.0f} MB its container may use"
            if found.memory_bytes
            else "there is"
        )
        return f"killed for lack of memory: it needs more than {allowed}"
    if found.error:
        return found.error
    if found.exit_code > KILLED:
        with contextlib.suppress(ValueError):
            return f"ended by {signal.Signals(found.exit_code - KILLED).name}"
    return f"exit code {found.exit_code}"


def _end(process: psutil.Process, grace_s: float) -> None:
    tree = [process, *process.children(recursive=True)]
    with contextlib.suppress(psutil.Error):
        process.terminate()
        process.wait(grace_s)
    child.kill_all(tree)
