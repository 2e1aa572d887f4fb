"""A service as a process, for the supervisor of a mesh or the agent of a site."""

from __future__ import annotations

import sys

from towpath.contracts.message import HUB_SCOPE
from towpath.mesh.home import Home
from towpath.mesh.servers import port_open
from towpath.mesh.service_table import Service
from towpath.mesh.state import MeshState
from towpath.processes import ChildSpec, version_of


def service_child(
    service: Service, state: MeshState, home: Home, scope: str = HUB_SCOPE, number: int = 1
) -> ChildSpec:
    """Return a service as a process: this interpreter and home, and the mesh's hooks.

    If the mesh has several processes of the service, `number` tells which one it is.
    """
    name = service.process(scope, number)
    site = ("--site", scope) if service.one_per_site else ()
    which = ("--number", str(number)) if number > 1 else ()
    environment = state.process_environment(home, scope, name)
    read = [*service.settings(state, scope), *(["faults"] if environment else [])]

    async def ready() -> bool:
        return service.address is None or await port_open(*service.address(state))

    return ChildSpec(
        name=name,
        command=(sys.executable, "-m", service.module, "--home", str(home.root), *site, *which),
        log=home.log(name),
        environment={"PYTHONUNBUFFERED": "1", **environment},
        ready=ready if service.address else None,
        after=service.needs(state.spec),
        stop_s=service.stop_s,
        version=version_of("\n".join(read)) if read else "",
    )
