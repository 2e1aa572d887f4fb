"""What a service beside the hub must be told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from towpath.mesh.credentials import Credential
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState


@dataclass(frozen=True)
class HubSettings:
    """Where the hub is, and the mesh's directory: which sites there are is read when it matters.

    Each service has a class of its own that says who it logs in as.
    """

    home: Home
    hub_url: str
    hub_user: str
    hub_password: str

    @staticmethod
    def credential(mesh: MeshState) -> Credential:
        """What the service logs in with."""
        raise NotImplementedError

    @classmethod
    def from_home(cls, root: Path) -> Self:
        """The settings of the mesh that was set up in the directory `root`. Raises `TowpathError`."""
        home = Home(root)
        mesh = MeshState.load(home)
        user = cls.credential(mesh)
        return cls(home=home, hub_url=mesh.hub_url, hub_user=user.user, hub_password=user.password)
