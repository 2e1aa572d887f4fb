"""What the injector must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import Credential, MeshState


@dataclass(frozen=True)
class Settings(HubSettings):
    """Where the hub is, and where the rules are written down."""

    @property
    def record(self) -> Path:
        """File that keeps what is loaded, for an injector that follows this one."""
        return self.home.root / "injector.json"

    @staticmethod
    def credential(mesh: MeshState) -> Credential:
        """See `HubSettings.credential`."""
        return mesh.injector
