"""Cut the power of processes: kill them, and take from their files what was not synced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from running.waiting import until
from running.whole_mesh import WholeMesh
from towpath.processes import child

SUPERVISOR = "local"
SERVERS = ("nats", "hub", "redis")
ENDS_S = 60.0
"""For a disk to be unmounted, and to forget."""


class Disk:
    """A directory on a disk of `towpath.lab.power`. No process may use it when it is cut off."""

    def __init__(self, directory: Path, mount: Path) -> None:
        self._directory = directory
        self.mount = mount
        self._log = directory.with_suffix(".log")
        mount.mkdir(parents=True, exist_ok=True)
        self._process = self._mounted()

    def _mounted(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "towpath.lab.power", str(self._directory), str(self.mount)]
        with self._log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        until(lambda: self.mount.is_mount() or process.poll() is not None)
        assert process.poll() is None, self._log.read_text()
        return process

    def cut(self) -> None:
        """Cut the power, and switch it on again."""
        self._end(signal.SIGUSR1)
        self._process = self._mounted()

    def take_away(self) -> None:
        """Unmount the disk."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        assert self._process.wait(ENDS_S) == 0, self._log.read_text()


def cut(mesh: WholeMesh, machine: str, *disks: Disk) -> None:
    """Cut the power of a site, or of the `hub` with the services beside it, and switch it on again.

    `disks` have all that the machine stores. Its processes start again as after a boot.
    """
    running = mesh.pids()
    supervisor = running.pop(SUPERVISOR)
    sites = tuple(f"{site}-" for site in mesh.state.sites)
    mine = [n for n in running if n.startswith(f"{machine}-" if machine != "hub" else "")]
    if machine == "hub":
        mine = [name for name in mine if not name.startswith(sites)]
    os.kill(supervisor, signal.SIGSTOP)  # It would restart some while others still run.
    try:
        # Servers first: without them, no one can be told what the disk does not have.
        for name in sorted(mine, key=lambda name: not name.endswith(SERVERS)):
            # The leader last: without it, nothing says any more what it started.
            leader = psutil.Process(running[name])
            child.kill_all([*leader.children(recursive=True), leader])
        for disk in disks:
            disk.cut()
    finally:
        os.kill(supervisor, signal.SIGCONT)


@contextmanager
def disk_at(mount: Path, directory: Path) -> Iterator[Disk]:
    """Mount an empty disk."""
    disk = Disk(directory, mount)
    try:
        yield disk
    finally:
        disk.take_away()
