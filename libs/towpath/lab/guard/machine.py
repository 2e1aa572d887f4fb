"""A machine of a mesh whose power can be cut: a site, or the hub with the services beside it."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import psutil

from towpath.contracts.message import HUB_SCOPE
from towpath.lab.guard.process import is_guard
from towpath.lab.power.mount import mounts_under
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR, is_hub_process
from towpath.mesh.service_table import SITE_SERVER
from towpath.processes import PidRecord, find, listed
from towpath.processes.record import CLOCK_TOLERANCE_S, has_ended
from towpath.tasks import wait_until

_SERVERS = ("redis", f"-{SITE_SERVER}", "-mosquitto")
"""Ends of the names of the processes that acknowledge what others send."""

GONE_S = 10.0
"""For killed processes to be gone: a JVM of a gigabyte needs up to a second."""

LOOK_EVERY_S = 0.01


class Machine:
    """The processes and the disks of a site, or of the `hub`.

    All machines of a mesh on one computer share a supervisor. It is stopped while the power of one of them is
    cut, so that it starts nothing of a machine that is still dying, and then starts everything as after a
    boot. Containers are machines of their own, and not among the processes.
    """

    def __init__(self, home: Home, name: str) -> None:
        self._home = home
        self._name = name

    def cut_power(self, *, lose_disks: bool = False) -> None:
        """Kill all processes at once, let the disks forget, and let everything start again.

        Disks of `towpath.lab.power` forget what was not synced. Others forget nothing. With `lose_disks`
        nothing is left but the configuration of servers. Blocks until all processes are gone and all disks
        are mounted again. Raises `NotInTime`.
        """
        try:
            self.switch_off(lose_disks=lose_disks)
        finally:
            self.let_start()

    def switch_off(self, *, lose_disks: bool = False) -> None:
        """Cut the power, and keep it off until `let_start`.

        The supervisor stands still meanwhile, so nothing else of the mesh that dies is started again either.
        """
        supervisor = self._supervisor()
        if supervisor is not None:
            supervisor.suspend()
        wait_until(lambda: not self._kill(), GONE_S, LOOK_EVERY_S)
        for disk in mounts_under(self._directories()):
            disk.cut_power()
        if lose_disks:
            for directory in self._directories():
                empty(directory)

    def let_start(self) -> None:
        """Let the supervisor start what is missing. Harmless when it does so already."""
        supervisor = self._supervisor()
        if supervisor is not None:
            supervisor.resume()

    def processes(self) -> list[psutil.Process]:
        """Return what runs on it: servers first, and a process after those that it started.

        Each process of a mesh leads a session, in which are also those that it started and that outlived it.
        """
        leaders = [record for record in listed(self._home.run) if self._has(record) and _is_its_own(record)]
        leaders.sort(key=lambda record: not _is_server(record.name))
        order = {record.pid: place for place, record in enumerate(leaders)}
        found: list[tuple[int, bool, psutil.Process]] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
                session = os.getsid(process.pid)
                if session in order and not has_ended(process):
                    found.append((order[session], process.pid == session, process))
        return [process for *_, process in sorted(found, key=lambda each: each[:2])]

    def _kill(self) -> bool:
        """Kill all. Return true if there was anything: it may have started more in its last moment."""
        running = self.processes()
        for process in running:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(running)

    def _has(self, record: PidRecord) -> bool:
        # A guard stays: it has to let the supervisor go on.
        is_spared = record.name == SUPERVISOR or is_guard(record.name) or record.container is not None
        return not is_spared and self._home.scope_of(record.name) == self._name

    def _supervisor(self) -> psutil.Process | None:
        record = find(self._home.run, SUPERVISOR)
        return record.process if record is not None else None

    def _directories(self) -> list[Path]:
        if self._name == HUB_SCOPE:
            hub = self._home.root.glob(f"{HUB_SCOPE}*")  # One directory for each of its servers.
            return [*hub, self._home.redis, self._home.artefacts]
        home, site = self._home, self._name
        return [
            home.nats(site),
            home.broker(site),
            home.jobs(site),
            home.engine(site),
            home.site_artefacts(site),
        ]


def _is_server(process: str) -> bool:
    return is_hub_process(process) or process.endswith(_SERVERS)


def empty(directory: Path) -> None:
    """Delete everything in it but the configuration of servers."""
    for path in directory.glob("*"):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix != ".conf":
            path.unlink()


def _is_its_own(record: PidRecord) -> bool:
    """Return true unless another process has its pid. Those that it started may outlive it."""
    if not record.is_of_this_boot:
        return False
    try:
        started = psutil.Process(record.pid).create_time()
    except psutil.NoSuchProcess:
        return True
    return abs(started - record.create_time) < CLOCK_TOLERANCE_S
