"""A mesh of servers whose links to the hub are emulated by the real links process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from running.mesh import Mesh, linked
from towpath.contracts.site import FaultSettings, MeshSpec, SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.provisioning import provision
from towpath.mesh.servers import hub_servers, site_server
from towpath.processes import stop
from towpath.supervisor.app import children


@contextmanager
def mesh_with_links(directory: Path) -> Iterator[Mesh]:
    """Run the hub, the links process, and the servers of jfk and lga."""
    home = Home(directory)
    spec = MeshSpec(
        sites=[SiteSpec(name="jfk"), SiteSpec(name="lga")],
        emulate_links=True,
        faults=FaultSettings(enabled=True),
    )
    state = provision(home, spec)
    specs = [*hub_servers(state, home)]
    specs += [child for child in children(state, home) if child.name == "links"]
    specs += [site_server(state, site, home) for site in state.sites]
    running = Mesh(state, home, {spec.name: spec for spec in specs})
    try:
        for spec in specs:
            asyncio.run(running.start(spec.name))
        asyncio.run(linked(running))
        yield running
    finally:
        for spec in reversed(specs):
            stop(home.run, spec.name, grace_s=3)
