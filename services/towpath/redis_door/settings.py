"""Settings of the door of Redis."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import TlsFiles


@dataclass(frozen=True)
class DoorSettings:
    """Where it listens, what it shows, and where Redis is."""

    listen: str
    port: int
    tls: TlsFiles
    redis: tuple[str, int]

    @classmethod
    def from_home(cls, root: Path) -> DoorSettings:
        """Return the settings of the mesh in the directory `root`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(root))
        if mesh.tls is None:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh encrypts nothing",
                field="tls.enabled",
                value=False,
                allowed="a mesh that `towpath up` has started with encryption",
            )
        address = (mesh.redis_host, mesh.redis_port)
        return cls(mesh.spec.listen, mesh.spec.redis_port, mesh.tls, address)
