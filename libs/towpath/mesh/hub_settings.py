"""Settings of a service beside the hub."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from towpath.contracts.credential import Credential
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class HubSettings:
    """Address of the hub, and the mesh's directory: a service reads its sites when it needs them.

    Each service has a class of its own with its name.
    """

    service: ClassVar[str]
    """Name of the service, as in its description."""

    home: Home
    hub_url: str
    hub_user: str
    hub_password: str
    hub_tls: ssl.SSLContext | None = field(default=None, kw_only=True)
    """With what the hub is checked; None: it is plain."""
    number: int = field(default=1, kw_only=True)
    """Which one this is, if the mesh has several processes of the service."""

    @classmethod
    def credential(cls, mesh: MeshState) -> Credential:
        """Return the service's credential. Raises `TowpathError` when this mesh does not have the service."""
        return mesh.login(cls.service)

    @classmethod
    def from_home(cls, root: Path, number: int = 1) -> Self:
        """Return the settings of the mesh that was set up in the directory `root`. Raises `TowpathError`."""
        home = Home(root)
        mesh = MeshState.load(home)
        user = cls.credential(mesh)
        return cls(
            home=home,
            hub_url=mesh.hub_url,
            hub_user=user.user,
            hub_password=user.password,
            hub_tls=mesh.hub_tls(),
            number=number,
            **cls.own_fields(home, mesh),
        )

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return the fields that only this service's settings have. Raises `TowpathError`."""
        return {}
