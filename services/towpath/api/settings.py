"""Settings of the REST interface."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class ApiSettings:
    """Its address, its token, and the address of the hub."""

    hub_url: str
    hub_user: str
    hub_password: str
    listen: str
    port: int
    token: str
    keep_alive_s: float = 15.0
    """An event stream sends something at least this often, so that dead connections are noticed."""
    write_s: float = 30.0
    """A client that reads nothing of an event stream for this long is cut off. It can resume."""

    @classmethod
    def from_home(cls, home: Path) -> ApiSettings:
        """Return the settings of the mesh in the directory `home`. Raises `TowpathError`."""
        mesh = MeshState.load(Home(home))
        if mesh.spec.api_port == 0:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "this mesh has no port for the REST interface yet",
                field="api_port",
                value=0,
                allowed="a mesh that `towpath up` has started",
            )
        login = mesh.login("api")
        return cls(
            hub_url=mesh.hub_url,
            hub_user=login.user,
            hub_password=login.password,
            listen=mesh.spec.listen,
            port=mesh.spec.api_port,
            token=mesh.api_token,
        )
