"""Disks whose power can be cut, and that can be filled; and a mesh that stores on such disks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from running.waiting import until
from running.whole_mesh import WholeMesh, whole_mesh
from towpath.lab.power.mount import MODULE, Mount
from towpath.mesh.home import Home

ENDS_S = 60.0
"""For a disk to be unmounted."""


@contextmanager
def disk_at(mount: Path, directory: Path) -> Iterator[Mount]:
    """Mount an empty disk."""
    mount.mkdir(parents=True, exist_ok=True)
    log = directory.with_suffix(".log")
    with log.open("ab") as output:
        command = [sys.executable, "-m", MODULE, str(directory), str(mount)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        until(lambda: mount.is_mount() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield Mount(psutil.Process(process.pid), directory, mount)
    finally:
        process.terminate()
        assert process.wait(ENDS_S) == 0, log.read_text()


@dataclass(frozen=True)
class PowerSafeMesh:
    """A running mesh of two power-safe sites, and the disks of the hub and of one site by what they hold."""

    mesh: WholeMesh
    disks: dict[str, Mount]


@contextmanager
def power_safe_mesh(directory: Path) -> Iterator[PowerSafeMesh]:
    """Start a mesh of power-safe sites. What the hub and jfk store is on disks."""
    home = Home(directory / "home")
    places = {"events": home.nats("jfk"), "jobs": home.jobs("jfk"), "hub": home.hub, "redis": home.redis}
    with ExitStack() as stack:
        disks = {
            name: stack.enter_context(disk_at(place, directory / f"disk-{name}"))
            for name, place in places.items()
        }
        mesh = stack.enter_context(whole_mesh(directory, each='durability = "power-safe"\n'))
        yield PowerSafeMesh(mesh, disks)
