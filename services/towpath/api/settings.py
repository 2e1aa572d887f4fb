"""Settings of the REST interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from towpath.contracts.autopilot import AutopilotSpec
from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.hub_settings import HubSettings
from towpath.mesh.state import MeshState
from towpath.mesh.tls_files import TlsFiles


@dataclass(frozen=True)
class ApiSettings(HubSettings):
    """Its address, its token, and the address of the hub."""

    service = "api"

    listen: str
    port: int
    token: str
    """The owner's. All others are in `home.tokens`."""
    keep_alive_s: float = 15.0
    """An event stream sends something at least this often, so that dead connections are noticed."""
    write_s: float = 30.0
    """A client that reads nothing of an event stream for this long is cut off. It can resume."""
    tls: TlsFiles | None = None
    """Its certificate; None: it is plain."""

    @classmethod
    def credential(cls, mesh: MeshState) -> Credential:
        """See `HubSettings.credential`. Raises `TowpathError` (not allowed) for a mesh without a port yet."""
        if mesh.spec.api_port == 0:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh has no port for the REST interface yet",
                field="api_port",
                value=0,
                allowed="a mesh that `towpath up` has started",
            )
        return super().credential(mesh)

    @classmethod
    def own_fields(cls, home: Home, mesh: MeshState) -> dict[str, Any]:
        """Return address and token."""
        return {
            "listen": mesh.spec.listen,
            "port": mesh.spec.api_port,
            "token": mesh.api_token,
            "tls": mesh.api_tls,
        }

    def autopilot(self) -> AutopilotSpec:
        """Return the autopilot's present settings. Blocks."""
        return MeshState.load(self.home).spec.autopilot
