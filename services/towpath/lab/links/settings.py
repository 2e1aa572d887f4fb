"""Settings of the process of the emulated links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.proxy import FROM_REDIS, LinkRoute
from towpath.mesh.home import Home
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class LinkSettings(HubSettings):
    """Where the links begin and end, and where their commands come from."""

    service = "links"

    routes: dict[str, tuple[LinkRoute, ...]]
    """Site → what its link leads to: the hub, and Redis."""

    @property
    def record(self) -> Path:
        """File that keeps the conditions, for a process that follows this one."""
        return self.home.root / "links.json"

    @classmethod
    def credential(cls, mesh: MeshState) -> Credential:
        """See `HubSettings.credential`. Raises `TowpathError` (not allowed) without emulated links."""
        if not mesh.spec.emulate_links:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh emulates no links",
                field="emulate_links",
                value=False,
                allowed="true",
            )
        return super().credential(mesh)

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return the routes of all sites."""
        hub = tuple((host.strip("[]"), port) for host, port in mesh.hub_leaf_addresses)
        redis_host, redis_port = mesh.redis_entry
        redis = redis_host.strip("[]"), redis_port
        listen = mesh.spec.listen
        routes = {
            site: (
                LinkRoute((listen, access.link_port), hub),
                LinkRoute((listen, access.link_redis_port), (redis,), FROM_REDIS),
            )
            for site, access in mesh.sites.items()
        }
        return {"routes": routes}
