"""A container daemon for tests, the machine's or one of their own, and containers of a tiny image."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import tarfile
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from docker.client import DockerClient
from docker.models.containers import Container
from docker.models.networks import Network

from running.places import ROOT
from running.waiting import WITHIN_S, until
from towpath.containers.daemon import daemon
from towpath.containers.errors import HOST, DaemonError

DAEMON = ROOT / "infra" / "docker" / "daemon.sh"

BUSYBOX, PACKAGE = "towpath-test:busybox", "busybox-static"
"""A tiny image, and Debian's package of the one program in it."""

START_S = 300.0
"""Time for a daemon to start, and for its packages to be installed where they are missing."""

IMAGES_S = 900.0

FOR_EVER = "trap 'exit 0' TERM; while :; do sleep 0.1; done"


@pytest.fixture(scope="session")
def docker_daemon() -> Iterator[str]:
    """Return a daemon's `DOCKER_HOST`, and set it for this process and those it starts."""
    # The path is short because the daemon's socket lies in it.
    directory = tempfile.mkdtemp(prefix="towpath-docker-")
    with pytest.MonkeyPatch.context() as environment:
        try:
            environment.setenv(HOST, _start(directory))
            yield os.environ[HOST]
        finally:
            subprocess.run([DAEMON, "stop", directory], check=True, timeout=2 * WITHIN_S)
            shutil.rmtree(directory, ignore_errors=True)


def _start(directory: str) -> str:
    started = subprocess.run(
        [DAEMON, "start", directory], capture_output=True, text=True, timeout=START_S, check=False
    )
    assert started.returncode == 0, started.stderr
    words = shlex.split(started.stdout)
    assert words[0] == "export", started.stdout
    return words[1].removeprefix(f"{HOST}=")


@pytest.fixture(scope="session")
def busybox(docker_daemon: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of the tiny image at the daemon."""
    with daemon(docker_daemon) as docker:
        if not docker.images.list(BUSYBOX):
            program = _busybox(tmp_path_factory.mktemp("busybox"))
            repository, _, tag = BUSYBOX.partition(":")
            docker.api.import_image_from_data(_root_file_system(program), repository, tag)
    return BUSYBOX


def _busybox(directory: Path) -> Path:
    for command in (["apt-get", "download", PACKAGE], ["sh", "-c", "dpkg-deb -x ./*.deb root"]):
        subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=START_S)
    return directory / "root" / "bin" / "busybox"


def _root_file_system(program: Path) -> bytes:
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.add(program, "bin/busybox")
        for name in listed:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            if name != "busybox":
                tar.addfile(link)
    return content.getvalue()


def build_images(tag: str = "local") -> None:
    """Build the images of services and sites from this clone."""
    command = [ROOT / "infra" / "docker" / "images.sh", tag]
    built = subprocess.run(command, capture_output=True, text=True, timeout=IMAGES_S, check=False)
    assert built.returncode == 0, built.stderr


class Yard:
    """Containers and networks of one test, under names of their own."""

    def __init__(self, docker: DockerClient) -> None:
        self.docker = docker
        self.prefix = f"towpath-test-{uuid.uuid4().hex[:8]}"
        self._label = {"towpath.test": self.prefix}

    def run(self, name: str, script: str = FOR_EVER, **options: Any) -> Container:
        """Start a container that runs a shell script."""
        return self.docker.containers.run(
            BUSYBOX,
            ["/bin/sh", "-c", script],
            name=f"{self.prefix}-{name}",
            detach=True,
            labels=self._label,
            **options,
        )

    def create(self, name: str, image: str, command: list[str], **options: Any) -> Container:
        """Create a container that does not run yet."""
        options = {"name": f"{self.prefix}-{name}", "labels": self._label, **options}
        return self.docker.containers.create(image, command, **options)

    def network(self, name: str, **options: Any) -> Network:
        """Create a network."""
        return self.docker.networks.create(f"{self.prefix}-{name}", labels=self._label, **options)

    def clear(self) -> None:
        """Remove all containers and networks of the test."""
        ours = {"filters": {"label": f"towpath.test={self.prefix}"}}
        for container in self.docker.containers.list(all=True, ignore_removed=True, **ours):
            container.remove(force=True, v=True)
        for network in self.docker.networks.list(**ours):
            network.remove()


@contextmanager
def yard() -> Iterator[Yard]:
    """Yield a yard, and remove all of it in the end."""
    with daemon(answer_s=WITHIN_S) as docker:
        made = Yard(docker)
        try:
            yield made
        finally:
            made.clear()


def status(container: Container) -> str:
    """Return the container's present status, such as `running`."""
    container.reload()
    return container.status


def until_daemon_says(condition: Callable[[], object]) -> None:
    """Return once the condition holds. Ignore the daemon's errors until then."""

    def holds() -> object:
        with suppress(DaemonError):
            return condition()
        return None

    until(holds)
