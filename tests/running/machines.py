"""Machines of a network of their own, on this one: each has its own addresses and its own directory.

Everything is in namespaces that belong to one process, see `contained`. They end with it, however
it ends, with all processes, interfaces and files in them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from running.command_line import STEP_S
from running.waiting import until

WORK = Path("/tmp/towpath-machines")
"""Where the machines' directories are mounted. On the disk it stays empty."""

HOME = WORK / "home"
"""The directory of each machine, as its own processes see it. They do not see those of others."""

NAMES = ("hub", "alpha", "router", "beta")
ROUTED = NAMES[:-1]
ADDRESSES = {name: f"10.77.0.{10 * number}" for number, name in enumerate(ROUTED, 1)}
"""Addresses in the network that the machines share."""

BEHIND_NAT = "beta"
HIDDEN_ADDRESS = "10.0.2.100"
"""Its address in the network behind the router. slirp4netns gives it."""

PROGRAMS = {"unshare": "util-linux", "ip": "iproute2", "slirp4netns": "slirp4netns"}

_UNSHARED = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_PR_SET_PDEATHSIG = 1

_OWN_DIRECTORY = """
set -e
mount --bind "$1/$2" "$1/home"
for other in hub alpha router beta; do mount -t tmpfs none "$1/$other"; done
cd "$1/home"
shift 2
exec "$@"
"""


def missing() -> str | None:
    """Return one line that says why no machines can be made here. None if they can."""
    if os.geteuid() != 0:
        return "namespaces need root: run it as root"
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            return f"{program} is not installed: apt-get install {package}"
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun, which the NAT needs"
    tried = subprocess.run(
        [*_UNSHARED, "ip", "link", "add", "lan", "type", "bridge"], capture_output=True, text=True
    )
    return f"no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


def contained(command: Sequence[str]) -> int:
    """Run a command in namespaces of its own, and return its exit code: 2 while another one runs.

    SIGINT and SIGTERM interrupt it. Nothing of it stays, also if this process is killed.
    """
    WORK.mkdir(exist_ok=True)
    lock = os.open(WORK, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"another run has its machines in {WORK}", file=sys.stderr)
        return 2
    library = ctypes.CDLL(None)  # Before the fork: loading is not safe behind it.
    inside = subprocess.Popen(
        [*_UNSHARED, sys.executable, "-m", "running.machines", *command],
        preexec_fn=lambda: library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        process_group=0,  # A terminal's Ctrl-C would reach all of its processes at once.
    )
    asked = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.append(number) or _interrupt(inside.pid))  # noqa: B023
    code = inside.wait()
    WORK.rmdir()
    return 130 if asked else code


def _interrupt(unshare: int) -> None:
    inside = psutil.Process(unshare).children()
    for first in inside:
        first.send_signal(signal.SIGINT)
    if not inside:
        os.kill(unshare, signal.SIGKILL)  # It has not begun.


def _first_process(command: Sequence[str]) -> int:
    """Mount the work directory and run a command. Reap what ends, as the first process of a system does."""
    for directory in (WORK, "/run"):  # `ip netns` leaves a file in /run for each namespace.
        subprocess.run(["mount", "-t", "tmpfs", "none", str(directory)], check=True)
    for name in (*NAMES, HOME.name):
        (WORK / name).mkdir()
    worker = subprocess.Popen(command)
    signal.signal(signal.SIGINT, lambda *_: os.kill(worker.pid, signal.SIGINT))
    while True:
        ended, status = os.wait()
        if ended == worker.pid:
            return os.waitstatus_to_exitcode(status)


def connect() -> None:
    """Make the network: the hub's machine, that of a site, and a router on a bridge; one more behind that."""
    _ip("link", "set", "lo", "up")
    _ip("link", "add", "lan", "type", "bridge")
    _ip("address", "add", "10.77.0.1/24", "dev", "lan")
    _ip("link", "set", "lan", "up")
    for name in NAMES:
        _ip("netns", "add", name)
        _ip("-n", name, "link", "set", "lo", "up")
    for name, address in ADDRESSES.items():
        _ip(
            "link",
            "add",
            f"to-{name}",
            "master",
            "lan",
            "type",
            "veth",
            "peer",
            "name",
            "lan0",
            "netns",
            name,
        )
        _ip("link", "set", f"to-{name}", "up")
        _ip("-n", name, "address", "add", f"{address}/24", "dev", "lan0")
        _ip("-n", name, "link", "set", "lan0", "up")
    options = ("--configure", "--disable-host-loopback", "--disable-dns", "--netns-type=path")
    hidden = f"/run/netns/{BEHIND_NAT}"
    with (WORK / "nat.log").open("wb") as log:
        subprocess.Popen(
            ["ip", "netns", "exec", "router", "slirp4netns", *options, hidden, "lan0"], stdout=log, stderr=log
        )
    until(lambda: "inet" in _ip("-n", BEHIND_NAT, "-4", "address", "show", "scope", "global"))


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=STEP_S)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Machine:
    """A machine with a directory of its own."""

    name: str

    @property
    def directory(self) -> Path:
        """Its directory, as this process sees it."""
        return WORK / self.name

    def start(self, *command: str, **options: int) -> subprocess.Popen[str]:
        """Start a program of ours on it."""
        own = ["sh", "-c", _OWN_DIRECTORY, "sh", str(WORK), self.name, sys.executable, *command]
        return subprocess.Popen(["ip", "netns", "exec", self.name, *own], text=True, **options)  # type: ignore[call-overload]

    def towpath(self, *arguments: str) -> str:
        """Run `towpath` on it, which must succeed. Return what it prints."""
        pipe = subprocess.PIPE
        process = self.start("-m", "towpath.cli", "--home", str(HOME), *arguments, stdout=pipe, stderr=pipe)
        try:
            out, err = process.communicate(timeout=STEP_S)
        finally:
            process.kill()
        assert process.returncode == 0, f"towpath {' '.join(arguments)} on {self.name}: {err}"
        return out


if __name__ == "__main__":
    sys.exit(_first_process(sys.argv[1:]))
