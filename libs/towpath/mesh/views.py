"""Views of a mesh for parts that run apart: each has its own secrets, and no others."""

from __future__ import annotations

from typing import Any

from towpath.contracts.credential import Credential
from towpath.contracts.site import Addresses
from towpath.mesh.credentials import Logins
from towpath.mesh.service_table import Service, services
from towpath.mesh.state import MeshState, SiteAccess

EVERYWHERE = "0.0.0.0"
"""Address that a part listens on when it runs apart. Its network decides who reaches it."""


def service_view(state: MeshState, name: str, addresses: Addresses) -> MeshState:
    """Return what a service beside the hub is given. It finds the others at `addresses`."""
    sites = {site: access.model_copy(update=blanked(access)) for site, access in state.sites.items()}
    return _seen(state, services()[name], sites, addresses)


def site_view(state: MeshState, site: str, addresses: Addresses) -> MeshState:
    """Return what the agent and the engine of a site are given. Raises `TowpathError` (unknown site)."""
    return _seen(state, None, {site: state.site(site)}, addresses)


def _seen(
    state: MeshState, service: Service | None, sites: dict[str, SiteAccess], addresses: Addresses
) -> MeshState:
    own = {service.name, *service.secrets} if service else set()
    hidden = {name: blank for name, blank in {**blanked(state), "api_token": ""}.items() if name not in own}
    sites = {name: _listening(access) for name, access in sites.items()}
    kept = [access.spec for access in sites.values()]
    told: dict[str, Any] = {"sites": kept, "listen": EVERYWHERE, "addresses": addresses}
    if not (service and service.reads_artefacts):
        told["artefact_root"] = None
    spec = state.spec.model_copy(update=told)
    return state.model_copy(update={**hidden, "spec": spec, "sites": sites})


def _listening(access: SiteAccess) -> SiteAccess:
    return access.model_copy(update={"spec": access.spec.model_copy(update={"listen": EVERYWHERE})})


def blanked(part: Logins) -> dict[str, Any]:
    """Return all credentials of a mesh or a site, without their passwords."""
    fields = {name: getattr(part, name) for name in type(part).model_fields} | part.logins
    return {
        name: Credential(user=value.user, password="")
        for name, value in fields.items()
        if isinstance(value, Credential)
    }
