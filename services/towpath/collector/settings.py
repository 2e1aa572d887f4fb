"""Settings of the collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.credentials import Credential
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class CollectorSettings(HubSettings):
    """Address of the hub, and the place of the samples."""

    @property
    def metrics(self) -> Path:
        """File of the hub's own samples."""
        return self.home.root / "metrics.db"

    @staticmethod
    def credential(mesh: MeshState) -> Credential:
        """Return the collector's credential, as in `HubSettings.credential`."""
        return mesh.login("collector")
