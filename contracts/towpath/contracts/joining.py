"""Sites on other machines: the bundle that a machine joins with, and the command by which it does."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from towpath.contracts.credential import Credential
from towpath.contracts.message import ROOT, Command, Model, SiteName, is_unused
from towpath.contracts.site import MOST_COORDINATORS, HubNode, MeshSpec

DEFAULT_EXPIRY_S = 24 * 3600.0
LONGEST_EXPIRY_S = 30 * 24 * 3600.0

Password = Annotated[str, Field(pattern=r"^[0-9a-f]{48}$")]
"""192 random bits in hexadecimal, made on the joining machine."""


class Invitation(Credential):
    """A login at the hub that can do nothing but join, once."""

    expires: AwareDatetime


class Bundle(Model):
    """Everything that a machine needs to join a mesh as one site, or to replace the keys of its site. It has
    no keys of the site, because those are made on that machine, and none of other sites."""

    version: Literal[1] = 1
    mesh: MeshSpec
    """Settings of the mesh with this one site, and the addresses of the hub and of Redis."""
    leaf_port: int
    """Port at which the hub takes the site's server."""
    further_nodes: list[HubNode] = []
    """Servers of the hub beside its first, if it has several."""
    invitation: Invitation
    with_devices: bool = False
    """When a site that has joined redeems it, the keys of devices and gateways are replaced, too."""
    authority: str | None = None
    """Certificate of the mesh's authority, PEM; null: the mesh encrypts nothing."""

    @property
    def site(self) -> str:
        """Name of the site."""
        return self.mesh.sites[0].name


class SpareBundle(Model):
    """Everything that a machine needs to stand by for the coordinator. Its holder commands the mesh."""

    spare: int = Field(gt=MOST_COORDINATORS)
    """Number of the coordinator on that machine."""
    mesh: MeshSpec
    """Settings of the mesh, with the addresses of the hub, and the sites by name."""
    coordinator: Credential
    operator: Credential
    """Of the command line on that machine."""
    authority: str | None = None
    """Certificate of the hub's authority, PEM; null: the system's authorities, or it is plain."""


class SiteJoined(Model):
    """A site that has joined."""

    site: SiteName
    at: datetime
    certificate: str | None = None
    """Of the site, PEM; null: the mesh encrypts nothing."""


class JoinSite(Command[SiteJoined]):
    """From a machine with a bundle, under its invitation: these are the site's new keys at the hub.

    The invitation is used up by it. The same keys may be sent again.
    """

    subject = f"{ROOT}.command.supervisor.join-site"
    answer = SiteJoined
    example = {"id": "j1", "site": "jfk", "leaf": "0123456789ab" * 4, "redis": "ba9876543210" * 4}

    site: SiteName
    leaf: Password
    """Of the site's server at the hub."""
    redis: Password
    """Of the site's agent at Redis."""
    proof: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(default=None, exclude_if=is_unused)
    """SHA-256 of `USER:PASSWORD` of this site's invitation. Holders of another one may send the command, too,
    and are refused. So are machines of earlier versions, which have none."""
    certificate_request: Annotated[str, Field(max_length=10_000)] | None = None
    """PKCS #10, PEM, for a key made on the joining machine. A mesh that encrypts signs nothing of it but the
    key."""


JOINING_COMMANDS: tuple[type[Command[Any]], ...] = (JoinSite,)
"""Served by the supervisor beside the hub."""
