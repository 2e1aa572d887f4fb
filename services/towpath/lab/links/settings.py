"""Settings of the process of the emulated links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.proxy import LinkRoute
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class LinkSettings:
    """Where the links begin and end, and where their commands come from."""

    hub_url: str
    hub_user: str
    hub_password: str
    routes: dict[str, tuple[LinkRoute, ...]]
    """Site → what its link leads to: the hub, and Redis."""
    record: Path
    """File that keeps the conditions, for a process that follows this one."""

    @classmethod
    def from_home(cls, home: Path) -> LinkSettings:
        """The settings of the mesh in the directory `home`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        if not mesh.spec.emulate_links:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh emulates no links",
                field="emulate_links",
                value=False,
                allowed="true",
            )
        login = mesh.login("links")
        hub = mesh.hub_host.strip("[]"), mesh.leaf_port
        redis = mesh.redis_host.strip("[]"), mesh.redis_port
        listen = mesh.spec.listen
        return cls(
            hub_url=mesh.hub_url,
            hub_user=login.user,
            hub_password=login.password,
            routes={
                site: (
                    LinkRoute((listen, access.link_port), hub),
                    LinkRoute((listen, access.link_redis_port), redis),
                )
                for site, access in mesh.sites.items()
            },
            record=home / "links.json",
        )
