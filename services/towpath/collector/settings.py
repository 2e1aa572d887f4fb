"""Settings of the collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.hub_settings import HubSettings


@dataclass(frozen=True)
class CollectorSettings(HubSettings):
    """Address of the hub, and the place of the samples."""

    service = "collector"

    @property
    def metrics(self) -> Path:
        """File of the hub's own samples."""
        return self.home.root / "metrics.db"
