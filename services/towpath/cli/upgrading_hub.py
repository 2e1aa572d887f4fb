"""Restart the hub's services with the version that is installed, one after the other.

The supervisor comes first: it starts the others. It is killed, as it may be at any moment: asked to end, it
would end the mesh. The coordinator that leads comes last: by then its spares are of the new version. Jobs run
on at their sites. The servers of the hub restart only where the new version gives them other settings.

An upgrade that was interrupted is begun again: to restart a service twice does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from towpath.cli.connection import LOOK_DEADLINE_S, check_services_here, mesh_of_processes, open_bus
from towpath.cli.container_meshes import nothing_runs
from towpath.cli.output import print_json, print_table, say, working
from towpath.contracts.commands import ListSites
from towpath.contracts.coordinators import ShowCoordinators
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE
from towpath.mesh import lifecycle
from towpath.mesh.home import Home
from towpath.mesh.names import SUPERVISOR
from towpath.mesh.service_table import processes_of, servers_of, services
from towpath.mesh.state import MeshState
from towpath.mesh.version import installed_version
from towpath.processes import PidRecord, find


async def upgrade_hub(home: Home, within_s: float, *, dry_run: bool, as_json: bool) -> None:
    """Restart the supervisor and the services of the hub. Each has `within_s` seconds to be back.

    Raises `TowpathError`: on another machine, if no mesh runs, or if a service does not come back or stay up.
    """
    mesh = await mesh_of_processes(home)
    if mesh.spare is None:
        check_services_here(home, mesh)
    if find(home.run, SUPERVISOR) is None:
        raise nothing_runs(home)
    names = in_turn(home, mesh, await _leader(home))
    if dry_run:
        return print_json({"restarts": names}) if as_json else _show(home, names)
    with working("upgrading the hub …") as status:
        begun: list[PidRecord] = []
        for name in names:
            status.update(f"restarting {name} …")
            begun.append(await asyncio.to_thread(lifecycle.restart, home, name, within_s))
            say(f"{name} is back")
        async with open_bus(home) as bus:
            await bus.request(ListSites(), deadline_s=LOOK_DEADLINE_S)
    await asyncio.to_thread(_check_run, home, begun)
    if as_json:
        return print_json({"restarted": names, "version_now": installed_version()})
    print(f"the hub runs version {installed_version()}")


def in_turn(home: Home, mesh: MeshState, leader: str) -> list[str]:
    """Return the names of the processes to restart, in the order in which to do so."""
    beside_servers = set(processes_of(mesh.spec, sites=())) - set(servers_of(mesh.spec))
    if mesh.spare is not None:
        beside_servers = {services()["coordinator"].process(HUB_SCOPE, mesh.spare)}
    running = [name for name in beside_servers if find(home.run, name) is not None]
    return [SUPERVISOR, *sorted(running, key=lambda name: (name == leader, name))]


def _check_run(home: Home, begun: Sequence[PidRecord]) -> None:
    """Raise `TowpathError` if one of these processes has ended: the new version may not run here."""
    ended = [record.name for record in begun if record.process is None]
    if ended:
        logs = ", ".join(str(home.log(name)) for name in ended)
        raise TowpathError(ErrorCode.FAILED, f"{', '.join(ended)} did not stay up, see {logs}", field="site")


async def _leader(home: Home) -> str:
    """Return the coordinator that leads. The only one may be away: then it is no matter when it restarts."""
    try:
        async with open_bus(home) as bus:
            return (await bus.request(ShowCoordinators(), deadline_s=LOOK_DEADLINE_S)).leader
    except TowpathError as error:
        if error.detail.code not in (ErrorCode.UNREACHABLE, ErrorCode.DEADLINE):
            raise
        return ""


def _show(home: Home, names: Sequence[str]) -> None:
    pids = [(name, record.pid if (record := find(home.run, name)) else None) for name in names]
    print_table(("restarts", "pid"), pids, nothing="nothing runs")
