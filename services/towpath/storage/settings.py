"""Settings of a storage's process, from the mesh's state on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from towpath.bus.connecting import Login
from towpath.contracts.storage import StorageSpec
from towpath.mesh.current_keys import current_password
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class StorageSettings:
    """Settings of one storage."""

    site: str
    login: Login
    """At the site's own server."""
    directory: Path
    """Has the file with the history."""
    spec: StorageSpec

    @property
    def copies(self) -> Path:
        """Directory of copies of other sites' values."""
        return self.directory / "copies"

    @classmethod
    def of(cls, root: Path, site: str) -> StorageSettings:
        """Return the settings of a site of the mesh at `root`. Raises `TowpathError`."""
        home = Home(root)
        state = MeshState.load(home)
        access = state.site(site)
        login = access.login("storage")
        return cls(
            site=site,
            login=Login(access.nats_url, login.user, current_password(home, access, "storage")),
            directory=home.storage(site),
            spec=state.spec.storage,
        )
