"""What a monitor must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class MonitorSettings:
    """Where the hub is. Everything else comes with each command: a monitor keeps nothing."""

    hub_url: str
    hub_user: str
    hub_password: str

    @classmethod
    def from_home(cls, home: Path) -> MonitorSettings:
        """The settings of the mesh that was set up in the directory `home`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        return cls(hub_url=mesh.hub_url, hub_user=mesh.monitor.user, hub_password=mesh.monitor.password)
