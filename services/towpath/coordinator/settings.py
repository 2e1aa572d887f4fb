"""What a coordinator must be told."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.contracts.site import Capacity
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class CoordinatorSettings:
    """Where the hub and the registry are, and which sites belong to the mesh."""

    hub_url: str
    hub_user: str
    hub_password: str
    redis_host: str
    redis_port: int
    redis_user: str | None
    redis_password: str | None
    sites: tuple[str, ...]
    """Names of the sites that are known before their first heartbeat."""
    artefact_root: Path
    """What users' code must lie in, as people name it."""
    artefact_mount: Path | None = None
    """Where the coordinator finds that, if it is elsewhere: in its container."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """What sites have for jobs that say what they need."""
    faults: bool = True
    """Whether an injector answers commands about fault rules; otherwise the coordinator refuses them."""
    down_after_s: float = 5.0
    """Silence after which a site counts as down, seconds: five lost heartbeats."""
    missing_after_s: float = 10.0
    """How long a job may be missing from its site's heartbeats before it is started there again, seconds."""
    reconcile_every_s: float = 2.0

    @classmethod
    def from_home(cls, home: Path) -> CoordinatorSettings:
        """The settings of the mesh that was set up in the directory `home`. The environment variable
        TOWPATH_ARTEFACTS says where the artefact root was put into a container. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        login = mesh.login("coordinator")
        return cls(
            hub_url=mesh.hub_url,
            hub_user=login.user,
            hub_password=login.password,
            redis_host=mesh.redis_host,
            redis_port=mesh.redis_port,
            redis_user=mesh.redis_coordinator.user,
            redis_password=mesh.redis_coordinator.password,
            sites=tuple(mesh.sites),
            faults=mesh.spec.faults.enabled,
            capacities={name: access.spec.capacity for name, access in mesh.sites.items()},
            artefact_root=Path(mesh.spec.artefact_root or Home(home).artefacts),
            artefact_mount=Path(mount) if (mount := os.environ.get("TOWPATH_ARTEFACTS")) else None,
        )
