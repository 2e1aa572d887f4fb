"""Claim a name for a process, and become the process that was asked for.

`launch` runs this file as a script. It imports little, because it precedes the start of every child. The
process itself makes the claim, before its command runs. So its starter may be killed at any line, and
still no one starts a second process or fails to find the first.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from pathlib import Path

import psutil

from towpath.boot_clock import boot_id

ALREADY_CLAIMED = 75
"""Exit code when another process holds the name (`EX_TEMPFAIL` of sysexits.h)."""


AUTOGROUP = Path("/proc/self/autogroup")
"""Niceness of this process's session among others, on a kernel that shares processors between sessions."""


class AlreadyClaimedError(Exception):
    """Another live process holds the name."""


def claim(run: Path, name: str, command: list[str], *, version: str = "", restarts: int = 0) -> None:
    """Hold `name` for the life of this process and write its pid file.

    The lock is a file descriptor that survives `exec` and goes with the process, however it ends.
    Raises `AlreadyClaimedError`.
    """
    descriptor = os.open(run / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise AlreadyClaimedError(name) from error
    os.set_inheritable(descriptor, True)
    record = {
        "pid": os.getpid(),
        "create_time": psutil.Process().create_time(),
        "boot": boot_id(),
        "name": name,
        "command": command,
        "version": version,
        "restarts": restarts,
    }
    temporary = run / f".{name}.json.{os.getpid()}"
    temporary.write_text(json.dumps(record))
    temporary.replace(run / f"{name}.json")


def let_others_go_first(niceness: int) -> None:
    """Raise the niceness of this process, and of its session if the kernel has one for it."""
    if niceness == 0:
        return
    level = os.nice(niceness)
    # Without it, a niceness counts only among the processes of one session.
    with contextlib.suppress(OSError):
        AUTOGROUP.write_text(str(level))


def main(arguments: list[str]) -> None:
    """Claim a name, then become the command.

    `claim.py <run> <name> <version> <restarts> <niceness> <command…>`.
    """
    run, name, version, restarts, niceness, *command = arguments
    try:
        claim(Path(run), name, command, version=version, restarts=int(restarts))
    except AlreadyClaimedError:
        sys.exit(ALREADY_CLAIMED)
    let_others_go_first(int(niceness))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"cannot run {command[0]}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
