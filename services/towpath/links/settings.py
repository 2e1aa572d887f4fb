"""What the process of the emulated links must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class Settings:
    """Where the links begin and end, and where their commands come from."""

    hub_url: str
    hub_user: str
    hub_password: str
    listen: str
    """Address that all links listen on."""
    ports: dict[str, int]
    """Site → port of its link."""
    hub_host: str
    hub_leaf_port: int
    """Where all links lead."""
    record: Path
    """File that keeps the conditions, for a process that follows this one."""

    @classmethod
    def from_home(cls, home: Path) -> Settings:
        """The settings of the mesh in the directory `home`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        if not mesh.spec.emulate_links or mesh.links is None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh emulates no links",
                field="emulate_links",
                value=False,
                allowed="true",
            )
        return cls(
            hub_url=mesh.hub_url,
            hub_user=mesh.links.user,
            hub_password=mesh.links.password,
            listen=mesh.spec.listen,
            ports={site: access.link_port for site, access in mesh.sites.items()},
            hub_host=mesh.leaf_host.strip("[]"),
            hub_leaf_port=mesh.leaf_port,
            record=home / "links.json",
        )
