"""Settings of the autopilot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from towpath.contracts.autopilot import AutopilotSpec
from towpath.contracts.site import SiteSpec
from towpath.mesh.home import Home
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState
from towpath.placement.autopilot.rules import Rules

MOVE_DEADLINE_S = 600.0
"""Deadline for one move, or for a twin to begin: a large state over a narrow link."""

ATTEMPT_S = 10.0
"""The coordinator may have restarted when no answer came for this long."""


@dataclass(frozen=True)
class AutopilotSettings(HubSettings):
    """Address of the hub, and the rules that people set."""

    service = "autopilot"

    spec: AutopilotSpec

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return the autopilot's part of the mesh's settings."""
        return {"spec": mesh.spec.autopilot}

    @property
    def rules(self) -> Rules:
        """The rules of decision."""
        spec = self.spec
        return Rules(
            horizon_s=spec.horizon_s,
            interval_s=spec.interval_s,
            settled_s=spec.settled_s,
            rest_s=spec.rest_s,
            moves_per_hour=spec.moves_per_hour,
            kilojoule_s=spec.kilojoule_s,
            gigabyte_s=spec.gigabyte_s,
        )

    def sites(self) -> list[SiteSpec]:
        """Return the settings of the present sites. Blocks."""
        return [access.spec for access in MeshState.load(self.home).sites.values()]
