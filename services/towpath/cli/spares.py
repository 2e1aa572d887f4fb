"""Spare coordinators on other machines: invite one, and run it there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from towpath.atomic_write import make_private_directory, write_private_file
from towpath.cli import systemd_unit
from towpath.cli.connection import another_mesh, ask, check_services_here, mesh_of_processes
from towpath.cli.output import print_json, say, working
from towpath.cli.settings import AsJson, home_of
from towpath.contracts.coordinators import Coordinators, ShowCoordinators
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import SpareBundle
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import MOST_COORDINATORS
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.provisioning import exclusively
from towpath.mesh.service_table import services
from towpath.mesh.spare import spare_bundle, spare_mesh
from towpath.mesh.state import MeshState
from towpath.processes import find
from towpath.tasks import pause

ASK_S = 5.0
LOOK_EVERY_S = 0.5

app = typer.Typer(help="Let other machines stand by for the coordinator.")


@app.command()
def add(
    context: typer.Context,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="FILE", help="The bundle.", show_default="coordinator-N.bundle"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the bundle with which another machine stands by for the coordinator.

    The hub must be a NATS deployment on several machines. The bundle has the keys of the coordinator and of
    the command line: anyone who reads it commands the mesh.

    Example: `towpath spare add`
    """
    home = home_of(context)
    check_services_here(home, asyncio.run(mesh_of_processes(home)))
    with exclusively(home):
        state, number = MeshState.load(home), _next_number(home)
        authority = state.spec.hub.ca_file
        bundle = spare_bundle(state, number, Path(authority).read_text() if authority else None)
        write_private_file(home.spares, f"{number}\n")
    path = (into or Path(f"{name_of(bundle.spare)}.bundle")).absolute()
    write_private_file(path, bundle.model_dump_json(indent=2) + "\n")
    if as_json:
        return print_json({"bundle": str(path), "coordinator": name_of(bundle.spare)})
    say("it commands the mesh: let no one read it; on the other machine:")
    print(f"towpath join {path.name}")


def join_as_spare(
    home: Home, bundle: SpareBundle, within_s: float, *, install_service: bool, as_json: bool
) -> None:
    """Run a spare coordinator on this machine, and return when the others know it. Raises `TowpathError`."""
    home.create()
    with exclusively(home):
        known = MeshState.load(home) if home.state.exists() else None
        if known is not None and _of(known) != (bundle.spare, bundle.operator.password):
            raise another_mesh(home)
        spare_mesh(bundle, _authority(home, bundle), known).save(home)
    lifecycle.reload(home)
    if install_service:
        lifecycle.down(home)  # From here on it is systemd's.
        say(f"installed {systemd_unit.install(home, name_of(bundle.spare))}")
    start_spare(home, within_s, as_json=as_json, start=not install_service)


def start_spare(home: Home, within_s: float, *, as_json: bool, start: bool = True) -> None:
    """Run the spare coordinator of this machine, and return when it stands by, or leads.

    Without `start`, someone else starts it. Raises `TowpathError`.
    """
    state = MeshState.load(home)
    assert state.spare is not None
    with working("starting …"):
        if start:
            lifecycle.start(home)
        found = asyncio.run(_known(home, name_of(state.spare), within_s))
    if as_json:
        return print_json(found)
    name = name_of(state.spare)
    print(f"{name} leads" if found.leader == name else f"{name} stands by; {found.leader} leads")


def name_of(number: int) -> str:
    """Return the name of the coordinator of this number, as `towpath coordinators` lists it."""
    return services()["coordinator"].process(HUB_SCOPE, number)


def _next_number(home: Home) -> int:
    try:
        last = int(home.spares.read_text())
    except FileNotFoundError:
        last = MOST_COORDINATORS
    return last + 1


def _of(state: MeshState) -> tuple[int | None, str]:
    """Return which coordinator of which mesh a machine runs."""
    return state.spare, state.operator.password


def _authority(home: Home, bundle: SpareBundle) -> str | None:
    if bundle.authority is None:
        return None
    make_private_directory(home.certificates)
    path = home.certificates / "hub.pem"
    write_private_file(path, bundle.authority)
    return str(path.absolute())


async def _known(home: Home, name: str, within_s: float) -> Coordinators:
    """Wait until a coordinator of this name stands by or leads. Raises `TowpathError` (deadline)."""
    try:
        async with asyncio.timeout(within_s):
            while True:
                try:
                    found = await ask(home, ShowCoordinators(), deadline_s=ASK_S)
                except TowpathError:
                    found = None
                is_here = await asyncio.to_thread(find, home.run, name) is not None
                if is_here and found is not None and name in (found.leader, *found.spares):
                    return found
                await pause(LOOK_EVERY_S)
    except TimeoutError:
        raise TowpathError(
            ErrorCode.DEADLINE,
            f"{name} does not stand by after {within_s:g} s, see {home.log(name)}",
            field="--within",
            value=within_s,
        ) from None
