"""A whole mesh of two sites that the command line starts and stops, as users do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from running.command_line import START_S, UP_S, CommandLine
from running.places import EXAMPLES
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState

SITES = ("jfk", "cloud")

DISK = "towpath.lab.power"
"""A process that serves files of the mesh, and is none of it."""


class WholeMesh(CommandLine):
    """A running mesh with a directory for users' code."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "home")
        self.code = directory / "code"
        """The mesh's `artefact_root`."""
        self.code.mkdir()

    @property
    def at(self) -> Home:
        """The mesh's directory."""
        return Home(self.home)

    @property
    def state(self) -> MeshState:
        """Addresses and credentials."""
        return MeshState.load(self.at)

    def up(self, sites: Sequence[str] = SITES, each: str = "", settings: str = "") -> None:
        """Start everything, with links that can be cut, or what has changed. Return when every site is up.

        `each` is configuration of each site, and `settings` of the mesh.
        """
        configuration = self.code.parent / "towpath.toml"
        named = "".join(f'[[sites]]\nname = "{site}"\n{each}' for site in sites)
        configuration.write_text(
            f'artefact_root = "{self.code}"\nemulate_links = true\nfaults.enabled = true\n{settings}\n{named}'
        )
        options = ("--config", str(configuration), "--within", str(UP_S))
        ended = self.run("up", *options, within_s=START_S)
        assert ended.returncode == 0, ended.stderr

    def down(self) -> None:
        """Stop everything. No process of the mesh may be left."""
        self.succeed("down")
        assert self.processes() == []

    def processes(self) -> list[str]:
        """Return the command lines of the processes that work in the mesh's directory."""
        lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
        return [line for line in lines if str(self.home) in line and DISK not in line]

    def pids(self) -> dict[str, int]:
        """Return the pid of each process by its name."""
        return {process["name"]: process["pid"] for process in self.json("status")["processes"]}

    def deploy_example(self, name: str, replaced: Mapping[str, str] | None = None) -> None:
        """Deploy `examples/NAME.yaml`, with some of its words replaced, such as the job's name."""
        text = (EXAMPLES / f"{name}.yaml").read_text()
        for old, new in (replaced or {}).items():
            text = text.replace(old, new)
        path = self.code.parent / f"{name}.yaml"
        path.write_text(text)
        self.succeed("deploy", str(path))

    def job(self, name: str) -> dict[str, Any] | None:
        """Return the job of this name as `towpath jobs` shows it."""
        return next((job for job in self.json("jobs") if job["spec"]["name"] == name), None)

    def remove(self, *jobs: str) -> None:
        """Remove jobs and what they stored."""
        for job in jobs:
            self.succeed("remove", job, "--purge")


@contextmanager
def whole_mesh(directory: Path, sites: Sequence[str] = SITES, each: str = "") -> Iterator[WholeMesh]:
    """Start a mesh, and stop it at the end."""
    mesh = WholeMesh(directory)
    try:
        mesh.up(sites, each)
        yield mesh
    finally:
        mesh.down()
