"""Settings of the process of the emulated links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.proxy import LinkRoute
from towpath.mesh.credentials import Credential
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class LinkSettings(HubSettings):
    """Address of the hub, and where the links begin and end."""

    service = "links"

    @property
    def record(self) -> Path:
        """File that keeps the conditions, for a process that follows this one."""
        return self.home.root / "links.json"

    @property
    def routes(self) -> dict[str, tuple[LinkRoute, ...]]:
        """Site → what its link leads to: the hub, and Redis. Raises `TowpathError`."""
        mesh = MeshState.load(self.home)
        hub = mesh.hub_host.strip("[]"), mesh.leaf_port
        redis = mesh.redis_host.strip("[]"), mesh.redis_port
        listen = mesh.spec.listen
        return {
            site: (
                LinkRoute((listen, access.link_port), hub),
                LinkRoute((listen, access.link_redis_port), redis),
            )
            for site, access in mesh.sites.items()
        }

    @classmethod
    def credential(cls, mesh: MeshState) -> Credential:
        """See `HubSettings.credential`. Raises `TowpathError` (not allowed) where no links are emulated."""
        if not mesh.spec.emulate_links:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh emulates no links",
                field="emulate_links",
                value=False,
                allowed="true",
            )
        return super().credential(mesh)
