"""`towpath compose`: the files that run a mesh as containers."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from towpath.cli.artefact_roots import ArtefactRoot, container_artefact_root
from towpath.cli.container_meshes import mark_as_containers
from towpath.cli.output import print_json, say
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.site import FaultSettings, MeshSpec
from towpath.contracts.topology import Topology
from towpath.lab.topology.compose import ComposeSettings, compose, compose_text
from towpath.lab.topology.reading import read
from towpath.lab.topology.secrets import write_secrets
from towpath.lab.topology.sites import mesh_spec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.state import MeshState

HUB_PORT, REDIS_PORT, API_PORT = 14222, 16379, 18080
"""Unless others are asked for. They are no server's usual ones: such a server may run here, too."""

HEAD = """\
# A mesh of containers: hub, Redis, the services, and the sites {sites}. Each site has a network of
# its own; what crosses is what its link lets through. Written by `towpath compose` together with the secrets:
# do not change it, write it again. Images come from infra/docker/images.sh; `make docker-images` does both.
#
#   {write}
#   {compose} up --detach
#   towpath --home {home} sites
#   {compose} down --volumes
"""


@dataclass(frozen=True)
class Files:
    """Where everything goes, and how it is called from where the compose file is."""

    file: Path
    home: Home
    topology: str

    def seen(self, path: Path) -> str:
        """A path as it is called from where the compose file is: relative, where it is below it."""
        here = self.file.parent
        return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)

    def written(self, path: Path) -> str:
        """The same as compose takes it for a path, and not for the name of a volume."""
        seen = self.seen(path)
        return seen if seen == "." or Path(seen).is_absolute() else f"./{seen}"

    def head(self, topology: Topology, faults: bool) -> str:
        """Return the comment at the head of the file."""
        home = shlex.quote(self.seen(self.home.root))
        named = self.seen(Path(self.topology).absolute()) if Path(self.topology).exists() else self.topology
        allowed = " --faults" if faults else ""
        return HEAD.format(
            sites=", ".join(node.name for node in topology.nodes),
            write=f"towpath --home {home} compose {shlex.quote(named)}{self._option()}{allowed}",
            compose=self.command,
            home=home,
        )

    @property
    def command(self) -> str:
        """Compose, on this file."""
        return f"docker compose{self._option()}"

    def _option(self) -> str:
        return "" if self.file.name == "docker-compose.yml" else f" --file {shlex.quote(self.file.name)}"


def compose_command(
    context: typer.Context,
    topology: Annotated[str, typer.Argument(help="File that describes the sites, or a ready topology.")],
    file: Annotated[Path, typer.Option(help="The compose file to write.")] = Path("docker-compose.yml"),
    tag: Annotated[str, typer.Option(help="Of the images.")] = "local",
    hub_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = HUB_PORT,
    redis_port: Annotated[int, typer.Option(min=0, max=65535, help="Inside only.")] = REDIS_PORT,
    api_port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = API_PORT,
    faults: Annotated[
        bool, typer.Option("--faults/--no-faults", help="Run an injector: see `towpath faults`.")
    ] = False,
    artefact_root: ArtefactRoot = None,
    as_json: AsJson = False,
) -> None:
    """Write a compose file that runs a mesh as containers, and the secrets of each container.

    The mesh itself, as this machine commands it, is kept in the directory --home: all other commands work
    with it as with any mesh. Secrets that are there stay. A node's memory is its limit; its processor and
    its link are not: see `towpath fog`. Jobs may bring user code from below the directory in which this is
    first called, unless that holds your whole home; users of the machine must be able to read it.
    Example: `towpath --home mesh compose topology.yaml && docker compose up -d`
    """
    files = Files(file.absolute(), home_of(context), topology)
    described = read(topology)
    root = container_artefact_root(files.home, artefact_root)
    spec = spec_of(described, hub_port, redis_port, api_port, root)
    spec = spec.model_copy(update={"faults": FaultSettings(enabled=faults)})
    mark_as_containers(files.home)
    mesh = provision(files.home, spec)
    write_secrets(mesh, files.home.secrets)
    written = text_of(described, mesh, files, tag)
    if not files.file.exists() or files.file.read_text() != written:
        files.file.write_text(written)
    if as_json:
        return print_json({"file": str(files.file), "home": str(files.home.root), "start": _start(files)})
    say(f"wrote {os.path.relpath(files.file)} and the secrets in {files.home.secrets}")
    print(_start(files))


def spec_of(
    topology: Topology, hub_port: int, redis_port: int, api_port: int, artefact_root: str | None
) -> MeshSpec:
    """The mesh of a topology with these ports, and user code from there."""
    ports = {"hub_port": hub_port, "redis_port": redis_port, "api_port": api_port}
    return mesh_spec(topology, artefact_root).model_copy(update=ports)


def text_of(topology: Topology, mesh: MeshState, files: Files, tag: str) -> str:
    """The compose file of a mesh."""
    settings = ComposeSettings.of(topology, files.written(files.home.secrets), tag)
    if mesh.spec.artefact_root is not None:
        settings = replace(settings, artefacts=files.written(Path(mesh.spec.artefact_root)))
    return compose_text(compose(mesh, settings), files.head(topology, mesh.spec.faults.enabled))


def _start(files: Files) -> str:
    return f"docker compose --file {shlex.quote(os.path.relpath(files.file))} up --detach"
