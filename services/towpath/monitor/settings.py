"""Settings of a monitor."""

from __future__ import annotations

from dataclasses import dataclass

from towpath.mesh.hub_settings import HubSettings


@dataclass(frozen=True)
class MonitorSettings(HubSettings):
    """Address of the hub. Everything else comes with each command, because a monitor stores nothing."""

    service = "monitor"
