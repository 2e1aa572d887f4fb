"""Kill all processes that a test run leaves behind, even when the run itself is killed.

A mesh outlives the command that starts it, so a test run that is interrupted cannot rely on its fixtures to
stop it. Each run therefore has an id, which its processes inherit in their environment, and a temporary
directory of its own. A reaper waits beside the run until the run has ended, however that happens: the pipe
that they share is closed by the kernel. Then it kills every process that carries the id, every descendant of
one, and every process that works below the temporary directory (Redis overwrites its environment).

Run as a program it is the reaper: `python leftovers.py ID DIRECTORY`.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

RUN = "TOWPATH_TEST_RUN"
"""The environment variable that carries the run's id in its processes."""

WORKER = "PYTEST_XDIST_WORKER"
"""The variable that pytest-xdist sets in each of its workers."""

GRACE_S = 120.0
"""Time for processes to end after an ordered stop: Spark's Python workers take seconds to miss their JVM."""

ORDERLY = b"ended in order"
"""Message from a run to its reaper before the run closes the pipe itself."""


@dataclass
class Reaper:
    """The process that cleans up after this run, and the pipe that tells it when."""

    run: str
    directory: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls) -> Reaper:
        """Give this process and all that it starts an id and a temporary directory, and start the reaper."""
        run = f"{os.getpid()}-{secrets.token_hex(4)}"
        directory = Path(tempfile.mkdtemp(prefix="tests-"))
        command = [sys.executable, __file__, run, str(directory)]
        # A session of its own, so that Ctrl-C reaches the tests only.
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        os.environ[RUN] = run
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(directory)
        return cls(run, directory, process)

    def finish(self, *, orderly: bool) -> list[str]:
        """End the run. Return what an ordered run left for longer than `GRACE_S`, and is now killed."""
        out, _ = self.process.communicate(ORDERLY if orderly else b"")
        return out.decode().splitlines()

    def worker_died(self, worker: str) -> None:
        """Kill what a crashed worker had started. Its tests go on in another worker."""
        kill_all(lambda: marked(self.run, self.directory, worker))


def environment(process: psutil.Process) -> dict[str, str]:
    """Return the environment that a process was started with; empty if it has ended or overwrote it."""
    try:
        return process.environ()
    except psutil.Error:
        return {}


def folder(process: psutil.Process) -> Path:
    """Return the process' working directory; the root if it has ended."""
    try:
        return Path(process.cwd())
    except (psutil.Error, OSError):
        return Path("/")


def belongs(process: psutil.Process, run: str, directory: Path, worker: str | None) -> bool:
    """True if a process belongs to this run, and to this worker if one is named."""
    variables, at = environment(process), folder(process)
    if variables.get(RUN) == run:
        return worker in (None, variables.get(WORKER))
    return at.is_relative_to(directory) and (worker is None or f"popen-{worker}" in at.parts)


def marked(run: str, directory: Path, worker: str | None = None) -> list[psutil.Process]:
    """Return the running processes of a run: those that belong to it, and their descendants."""
    here = psutil.Process()
    spared = {here.pid, *(parent.pid for parent in here.parents())}
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if belongs(process, run, directory, worker):
            found[process.pid] = process
            for child in children(process):
                found[child.pid] = child
    return [p for pid, p in found.items() if pid not in spared and is_alive(p)]


def children(process: psutil.Process) -> list[psutil.Process]:
    """Return all descendants of a process that may have ended."""
    try:
        return process.children(recursive=True)
    except psutil.Error:
        return []


def is_alive(process: psutil.Process) -> bool:
    """True if a process still runs: a zombie only waits for its parent."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def describe(process: psutil.Process) -> str:
    """Return the process' id and command line, cut to a line."""
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:150]}"
    except psutil.Error:
        return str(process.pid)


def kill_all(find: Callable[[], list[psutil.Process]]) -> list[str]:
    """Kill what `find` finds until it finds nothing: a supervisor may restart a child meanwhile."""
    killed: dict[int, str] = {}
    while found := find():
        for process in found:
            killed.setdefault(process.pid, describe(process))
            try:
                process.kill()
            except psutil.Error:
                continue
        psutil.wait_procs(found, timeout=1)
    return list(killed.values())


def reap(run: str, directory: Path) -> list[str]:
    """Wait for the end of a run, then kill what is left of it. Return what was left after an ordered end."""
    orderly = sys.stdin.buffer.read() == ORDERLY
    end = time.monotonic() + GRACE_S
    while orderly and marked(run, directory) and time.monotonic() < end:
        time.sleep(0.1)
    killed = kill_all(lambda: marked(run, directory))
    if not orderly:
        shutil.rmtree(directory, ignore_errors=True)
    return killed if orderly else []


if __name__ == "__main__":
    if os.fork():
        sys.exit()  # The reaper is no child of the run: tests look at children.
    for left in reap(sys.argv[1], Path(sys.argv[2])):
        print(left)
