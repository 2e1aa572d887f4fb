"""Settings of the collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towpath.contracts.storage import StorageSpec
from towpath.mesh.home import Home
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class CollectorSettings(HubSettings):
    """Address of the hub, and the place of the samples."""

    service = "collector"

    storage: StorageSpec
    """Settings of the values that sites store."""

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return what sites store."""
        return {"storage": mesh.spec.storage}

    @property
    def site_records(self) -> Path:
        """File with what is known of the sites' failures."""
        return self.home.root / "sites.json"

    @property
    def metrics(self) -> Path:
        """File of the hub's own samples."""
        return self.home.root / "metrics.db"
