"""infra/docker/daemon.sh: its needs on a machine with a running daemon, and the files it leaves behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from running.waiting import WITHIN_S, until

SCRIPT = Path(__file__).parents[2] / "infra" / "docker" / "daemon.sh"
TOOLS = ("bash", "cat", "grep", "mkdir", "mv", "rm", "setsid", "sleep", "sort", "tail", "tr")


class Machine:
    """A machine with the programs that a test gives it. Others are found where servers usually are."""

    def __init__(self, directory: Path) -> None:
        self.programs, self.docker = directory / "bin", directory / "docker"
        self.programs.mkdir()
        for tool in TOOLS:
            (self.programs / tool).symlink_to(shutil.which(tool) or tool)

    def has(self, name: str, script: str) -> None:
        program = self.programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def start(self) -> subprocess.Popen[str]:
        """The script, starting a daemon."""
        environment = {"PATH": str(self.programs), "DOCKER_HOST": "unix:///somewhere/docker.sock"}
        command, pipe = [SCRIPT, "start", self.docker], subprocess.PIPE
        return subprocess.Popen(command, env=environment, text=True, stdout=pipe, stderr=pipe)


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    return Machine(tmp_path_factory.mktemp("m"))  # A short path: sockets have no long ones.


@pytest.fixture
def silent(machine: Machine, tmp_path: Path) -> Iterator[Path]:
    """A daemon that never answers: the file that tells its process."""
    pid = tmp_path / "pid"
    machine.has("docker", '[ "$1" = compose ]')
    machine.has("id", "echo 0")
    machine.has("dockerd", f"echo $$ >{pid}.new; mv {pid}.new {pid}; exec sleep 600")
    for name in ("iptables", "debootstrap"):
        machine.has(name, "exit 1")
    yield pid
    if pid.exists() and psutil.pid_exists(int(pid.read_text())):
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_start_when_a_daemon_answers_then_anybody_may_use_it(machine: Machine) -> None:
    machine.has("docker", "exit 0")
    machine.has("id", "echo 1000")
    started = machine.start()
    output, errors = started.communicate(timeout=WITHIN_S)
    assert (started.returncode, errors) == (0, "")
    assert output == "export DOCKER_HOST=unix:///somewhere/docker.sock\n"


def test_start_when_a_daemon_answers_without_the_compose_command_then_only_that_is_missing(
    machine: Machine,
) -> None:
    machine.has("docker", '[ "$1" != compose ]')
    machine.has("id", "echo 1000")
    started = machine.start()
    assert started.communicate(timeout=WITHIN_S)[1] == "docker: missing, please install: docker-compose\n"
    assert started.returncode == 1


def test_start_when_it_is_ended_before_the_daemon_answers_then_the_daemon_ends_with_it(
    machine: Machine, silent: Path
) -> None:
    started = machine.start()
    until(lambda: silent.exists() or started.poll() is not None)
    assert started.poll() is None, started.communicate()
    started.terminate()
    started.wait(WITHIN_S)
    assert not psutil.pid_exists(int(silent.read_text()))
