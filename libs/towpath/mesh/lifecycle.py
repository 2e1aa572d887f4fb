"""Bring the mesh of a home up and down. Everything here blocks: it is for the command line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import MeshSpec, ProcessStatus
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.requirements import check_requirements
from towpath.mesh.state import MeshState
from towpath.processes import PidRecord, find, listed, rotate_log, status, stop
from towpath.processes.claim import ALREADY_CLAIMED

START_DEADLINE_S = 20.0
"""Time for the supervisor to claim its home."""

STOP_DEADLINE_S = 9.0
"""Time for the supervisor to end everything in order. The rest is killed within the tenth second."""

PROCESS_GRACE_S = 3.0
"""Time for a process to end in good order that the supervisor does not end, or no longer."""


def up(home: Home, spec: MeshSpec, *, supervisor: Sequence[str] | None = None) -> MeshState:
    """Bring the mesh to `spec` and have a supervisor run it. Return when the supervisor runs.

    Harmless when the mesh is up: ports and credentials stay, and new sites are added. `supervisor` is the
    command that runs instead of our own. Raises `TowpathError`, before anything starts when the sites miss
    something.
    """
    # Here: commands that only look at processes need no table of services.
    from towpath.mesh.provisioning import provision

    if supervisor is None:
        check_requirements(spec)
    state = provision(home, spec, running=find(home.run, SUPERVISOR) is not None)
    if not start(home, supervisor):
        reload(home)  # Also if nothing is new: an earlier `up` may have been killed just before this.
    return state


def start(home: Home, supervisor: Sequence[str] | None = None) -> bool:
    """Have a supervisor run the saved mesh. Return False if one does already."""
    if find(home.run, SUPERVISOR) is not None:
        return False
    _start(home, supervisor or (sys.executable, "-m", "towpath.supervisor", "--home", str(home.root)))
    return True


def reload(home: Home) -> None:
    """Let the supervisor read the saved mesh again."""
    running = find(home.run, SUPERVISOR)
    if running is not None:
        # If it ends at this moment, the next `up` starts one that reads the new state.
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGHUP)


def restart(home: Home, name: str, within_s: float) -> PidRecord:
    """End a process that the supervisor looks after, or the supervisor itself, and wait until it runs again.

    It is then of the version that is installed. Return its record. Raises `TowpathError` (deadline).
    """
    end = time.monotonic() + within_s
    before = find(home.run, name)
    if name != SUPERVISOR:
        stop(home.run, name, grace_s=PROCESS_GRACE_S)
    elif before is not None:
        # Asked to end, it would end all. The next one adopts what runs.
        with contextlib.suppress(ProcessLookupError):
            os.kill(before.pid, signal.SIGKILL)
    while (now := find(home.run, name)) is None or now == before:
        if time.monotonic() > end:
            raise TowpathError(
                ErrorCode.DEADLINE, f"{name} is not back after {within_s:g} s, see {home.log(name)}"
            )
        if now is None and name == SUPERVISOR:
            start(home)
        time.sleep(0.02)
    return now


def down(home: Home) -> list[str]:
    """End everything of the mesh within ten seconds. Return the names of the processes that were running.

    The supervisor ends its children in order. Processes that it has not ended by then, or that an earlier one
    left behind, are killed with all descendants. Harmless when nothing runs.
    """
    end = time.monotonic() + STOP_DEADLINE_S + 0.5
    alive = [record.name for record in listed(home.run) if record.process is not None]
    stop(home.run, SUPERVISOR, grace_s=STOP_DEADLINE_S)
    names = [record.name for record in listed(home.run)]
    if names:
        grace_s = min(PROCESS_GRACE_S, max(0.0, end - time.monotonic()))
        with ThreadPoolExecutor(len(names)) as threads:
            ended = threads.map(lambda name: stop(home.run, name, grace_s=grace_s), names)
        alive += [name for name, was in zip(names, ended, strict=True) if was and name not in alive]
    return alive


def processes(home: Home) -> list[ProcessStatus]:
    """Return the status of the processes of the mesh. Those that ended in good order are not listed."""
    return [status(record) for record in listed(home.run)]


def _start(home: Home, command: Sequence[str]) -> None:
    log = home.log(SUPERVISOR)
    rotate_log(log)
    with log.open("ab") as output:
        started = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    end = time.monotonic() + START_DEADLINE_S
    while find(home.run, SUPERVISOR) is None:
        code = started.poll()
        if code not in (None, ALREADY_CLAIMED) or time.monotonic() > end:
            raise TowpathError(
                ErrorCode.FAILED, f"the local supervisor did not start, see {log}", field="home"
            )
        time.sleep(0.02)
