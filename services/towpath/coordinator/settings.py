"""The coordinator's settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from towpath.contracts.site import Capacity
from towpath.mesh.home import Home
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class CoordinatorSettings(HubSettings):
    """Addresses of the hub and the registry, the sites of the mesh, and time limits."""

    service = "coordinator"

    redis_host: str
    redis_port: int
    redis_user: str | None
    redis_password: str | None
    sites: tuple[str, ...]
    """Names of the sites that are known before their first heartbeat."""
    artefact_root: Path
    """Directory of users' code, as people name it."""
    artefact_mount: Path | None = None
    """The same directory as the coordinator sees it, if that differs: in its container."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """Resources of sites for jobs that name their needs."""
    coordinators: int = 1
    """Processes of the coordinator in the mesh."""
    faults: bool = True
    """True if an injector answers commands about fault rules; otherwise the coordinator refuses them."""
    down_after_s: float = 5.0
    """Silence after which a site counts as down, seconds: five lost heartbeats."""
    missing_after_s: float = 10.0
    """Seconds that a job may be missing from its site's heartbeats before it is started there again."""
    reconcile_every_s: float = 2.0
    failover_after_s: float | None = None
    """Silence after which jobs of a site go on at their standbys; None: when someone says so."""

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return the registry's address, the sites, and the places of users' code.

        The environment variable TOWPATH_ARTEFACTS names the place of the artefact root in a container."""
        return {
            "redis_host": mesh.redis_host,
            "redis_port": mesh.redis_port,
            "redis_user": mesh.redis_coordinator.user,
            "redis_password": mesh.redis_coordinator.password,
            "sites": tuple(mesh.sites),
            "coordinators": mesh.spec.coordinators,
            "faults": mesh.spec.faults.enabled,
            "failover_after_s": mesh.spec.failover.after_s,
            "capacities": {name: access.spec.capacity for name, access in mesh.sites.items()},
            "artefact_root": Path(mesh.spec.artefact_root or home.artefacts),
            "artefact_mount": Path(mount) if (mount := os.environ.get("TOWPATH_ARTEFACTS")) else None,
        }
