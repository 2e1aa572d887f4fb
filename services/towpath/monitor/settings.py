"""Settings of a monitor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class MonitorSettings:
    """Address of the hub. Everything else comes with each command, because a monitor stores nothing."""

    hub_url: str
    hub_user: str
    hub_password: str

    @classmethod
    def from_home(cls, home: Path) -> MonitorSettings:
        """Return the settings of the mesh in the directory `home`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        login = mesh.login("monitor")
        return cls(hub_url=mesh.hub_url, hub_user=login.user, hub_password=login.password)
