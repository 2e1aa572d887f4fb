"""What the collector must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class Settings:
    """Where the hub is, and the mesh's directory: which sites there are is read when it matters."""

    home: Home
    hub_url: str
    hub_user: str
    hub_password: str

    @property
    def metrics(self) -> Path:
        """File of the samples that are the hub's own."""
        return self.home.root / "metrics.db"

    @classmethod
    def from_home(cls, root: Path) -> Settings:
        """The settings of the mesh that was set up in the directory `root`. Raises `TowpathError`."""
        home = Home(root)
        mesh = MeshState.load(home)
        return cls(
            home=home,
            hub_url=mesh.hub_url,
            hub_user=mesh.collector.user,
            hub_password=mesh.collector.password,
        )
