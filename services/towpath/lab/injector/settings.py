"""Settings of the injector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class InjectorSettings(HubSettings):
    """Address of the hub, and the place of the rules."""

    service = "injector"

    @property
    def record(self) -> Path:
        """File that keeps what is loaded, for an injector that follows this one."""
        return self.home.root / "injector.json"

    @classmethod
    def credential(cls, mesh: MeshState) -> Credential:
        """See `HubSettings.credential`. Raises `TowpathError` (not allowed) where fault rules are off."""
        if not mesh.spec.faults.enabled:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "fault rules are off in this mesh",
                field="faults.enabled",
                value=False,
                allowed="true",
            )
        return super().credential(mesh)
