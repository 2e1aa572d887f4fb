"""What the collector must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import Credential, MeshState


@dataclass(frozen=True)
class CollectorSettings(HubSettings):
    """Where the hub is, and where samples are kept."""

    @property
    def metrics(self) -> Path:
        """File of the samples that are the hub's own."""
        return self.home.root / "metrics.db"

    @staticmethod
    def credential(mesh: MeshState) -> Credential:
        """See `HubSettings.credential`."""
        return mesh.collector
