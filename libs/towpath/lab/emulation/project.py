"""The compose project of an emulated topology: its files in one directory, the compose command on them."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.containers.images import is_present
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.site import FaultSettings
from towpath.contracts.topology import Topology
from towpath.lab.containers.projects import parts, remove_project, why
from towpath.lab.topology.compose import SERVICES_IMAGE, SITE_IMAGE, ComposeSettings, compose, compose_text
from towpath.lab.topology.secrets import write_secrets
from towpath.lab.topology.sites import mesh_spec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.service_table import SERVERS, hub_services
from towpath.mesh.state import MeshState

COMPOSE_S = 300.0
"""For the compose command: it makes some twenty containers and networks."""

SPARE = "spare"
"""The profile of nodes that are not started with the others."""

MORE_NETWORKS = "as many nodes as the daemon has networks for: its `default-address-pools` give it more"
"""Each node has a network of its own. Docker has about thirty, as it comes."""

SAID_LINES = 4
"""Of what a failed command said, for its error."""


@dataclass(frozen=True)
class Project:
    """Everything that an emulated topology has on this machine. All methods block."""

    home: Home
    """Of the mesh, as people on this machine command it."""

    @property
    def name(self) -> str:
        """Name of the project, one for each directory."""
        return f"towpath-{hashlib.sha256(str(self.home.root.resolve()).encode()).hexdigest()[:10]}"

    @property
    def topology_file(self) -> Path:
        """The topology as it was brought up last. It is there as long as there is anything else."""
        return self.home.root / "topology.json"

    @property
    def compose_file(self) -> Path:
        """File that the compose command reads."""
        return self.home.root / "docker-compose.yml"

    def topology(self) -> Topology | None:
        """Return the topology that is up here, or was when the machine went down. None if there is none."""
        try:
            return Topology.model_validate_json(self.topology_file.read_bytes())
        except FileNotFoundError:
            return None

    def standing(self) -> Topology | None:
        """Return it if its mesh was made as well: its maker may have been killed before."""
        return self.topology() if self.home.state.exists() else None

    def write(self, topology: Topology, tag: str, artefact_root: str | None = None) -> MeshState:
        """Write everything that the compose command needs, and return the mesh. Raises `OSError`.

        The topology comes first, so that an interrupted call can be repeated or taken down.
        """
        make_private_directory(self.home.root)
        write_private_file(self.topology_file, topology.model_dump_json(indent=2, exclude_defaults=True))
        spec = mesh_spec(topology, artefact_root).model_copy(update={"faults": FaultSettings(enabled=True)})
        mesh = provision(self.home, spec)
        settings = ComposeSettings.of(topology, str(self.home.secrets), tag)
        write_secrets(mesh, self.home.secrets)
        write_private_file(self.compose_file, compose_text(compose(mesh, settings)))
        write_private_file(self.home.own_commands, f"{self._up()}\n{self._compose_command()}\n")
        return mesh

    def _up(self) -> str:
        return f"towpath --home {shlex.quote(str(self.home.root.parent))} fog up"

    def _compose_command(self) -> str:
        file = shlex.quote(str(self.compose_file))
        return f"docker compose --file {file} --project-name {self.name}"

    def create(self) -> None:
        """Make all containers, and start those that are no nodes. Raises `TowpathError`."""
        self._compose("up", "--no-start", "--remove-orphans", profiles=(SPARE,))
        spec = MeshState.load(self.home).spec
        running = [service.name for service in hub_services() if service.runs(spec)]
        self._compose("up", "--detach", *SERVERS, *running)

    def remove(self) -> list[str]:
        """Remove containers, networks, volumes, and the directory. Return the names of what was removed.

        Raises `DaemonError` or `OSError`. The next try removes what an interrupted one has left.
        """
        removed = remove_project(self.name)
        if self.topology_file.exists():
            removed.append(str(self.home.root))
            self._remove_directory()
        return removed

    def containers(self) -> dict[str, str]:
        """Return the name of each service's container, running or not. Raises `DaemonError`."""
        return {service: part.container for service, part in parts(self.name).items()}

    def troubles(self) -> list[str]:
        """Describe each container that keeps restarting, with its last words. Raises `DaemonError`."""
        return [why(part) for part in parts(self.name).values() if part.state == "restarting"]

    def _remove_directory(self) -> None:
        """Remove the directory, the topology last: without it the rest would not be found."""
        for path in self.home.root.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path != self.topology_file:
                path.unlink()
        shutil.rmtree(self.home.root)

    def _compose(self, *arguments: str, profiles: Sequence[str] = ()) -> None:
        chosen = [part for profile in profiles for part in ("--profile", profile)]
        file = ["--file", str(self.compose_file), "--project-name", self.name]
        command = [*compose_command(), *file, *chosen, *arguments]
        environment = {**os.environ, "COMPOSE_HTTP_TIMEOUT": str(int(COMPOSE_S))}
        try:
            ran = subprocess.run(
                command, capture_output=True, text=True, timeout=COMPOSE_S, env=environment, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TowpathError(
                ErrorCode.DEADLINE, f"`{command[0]} {arguments[0]}` takes longer than {COMPOSE_S:g} s"
            ) from error
        if ran.returncode:
            raise _failed(f"{command[0]} {arguments[0]}", ran.stderr)


def _failed(what: str, said: str) -> TowpathError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    # Docker of any age says so in other words, but for these two.
    short_of_networks = any("address pool" in line for line in lines)
    return TowpathError(
        ErrorCode.FAILED,
        f"`{what}` failed: {' | '.join(lines[-SAID_LINES:])}",
        allowed=MORE_NETWORKS if short_of_networks else None,
    )


@cache
def compose_command() -> tuple[str, ...]:
    """`docker compose`, or docker-compose, whichever is there. Raises `TowpathError` when none is."""
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=30, check=False)
        if not asked.returncode:
            return ("docker", "compose")
    if shutil.which("docker-compose"):
        return ("docker-compose",)
    raise TowpathError(
        ErrorCode.FAILED,
        "the compose command is missing",
        field="PATH",
        allowed="`docker compose`, or docker-compose: `infra/docker/daemon.sh start <directory>` installs it",
    )


def check_images(tag: str) -> None:
    """Raise `TowpathError` when there is no daemon, or it has not what nodes and services are made of."""
    for name in (SERVICES_IMAGE, SITE_IMAGE):
        if not is_present(f"{name}:{tag}"):
            raise TowpathError(
                ErrorCode.INVALID,
                "the image is not there; infra/docker/images.sh builds it",
                field="tag",
                value=f"{name}:{tag}",
                allowed="a tag that both images have",
            )
