"""What a part of a mesh may know of it, where parts run apart: its own secrets, and those of nobody else."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from towpath.contracts.site import Addresses, MeshSpec
from towpath.mesh.names import INJECTOR_PROCESS
from towpath.mesh.state import Credential, MeshState, SiteAccess

EVERYWHERE = "0.0.0.0"
"""What a part that runs apart listens on: who reaches it is decided by the network that it is in."""

SECRETS: dict[str, frozenset[str]] = {
    "coordinator": frozenset({"coordinator", "redis_coordinator"}),
    "monitor": frozenset({"monitor"}),
    "injector": frozenset({"injector"}),
    "collector": frozenset({"collector"}),
    "api": frozenset({"api", "api_token"}),
    "links": frozenset({"links"}),
}
"""Service → the fields of the mesh's state that it logs in with, or is logged into with."""


def services_of(spec: MeshSpec) -> list[str]:
    """The services that a mesh runs apart, with its links emulated."""
    return [name for name in SECRETS if name != INJECTOR_PROCESS or spec.faults.enabled]


def service_view(state: MeshState, service: str, addresses: Addresses) -> MeshState:
    """What a service beside the hub is given, which finds the others at `addresses`."""
    sites = {name: _without_secrets(access) for name, access in state.sites.items()}
    return _seen(state, SECRETS[service], sites, addresses)


def site_view(state: MeshState, site: str, addresses: Addresses) -> MeshState:
    """What the agent and the engine of a site are given. Raises `TowpathError` (unknown site)."""
    return _seen(state, (), {site: state.site(site)}, addresses)


def _seen(
    state: MeshState, secrets: Collection[str], sites: dict[str, SiteAccess], addresses: Addresses
) -> MeshState:
    hidden: dict[str, Any] = {
        name: _blank(value)
        for name in MeshState.model_fields
        if name not in secrets and isinstance(value := getattr(state, name), Credential)
    }
    if "api_token" not in secrets:
        hidden["api_token"] = ""
    sites = {name: _listening(access) for name, access in sites.items()}
    kept = [access.spec for access in sites.values()]
    told: dict[str, Any] = {"sites": kept, "listen": EVERYWHERE, "addresses": addresses}
    if "coordinator" not in secrets:
        told["artefact_root"] = None  # Who takes no code from there need not know.
    spec = state.spec.model_copy(update=told)
    return state.model_copy(update={**hidden, "spec": spec, "sites": sites})


def _listening(access: SiteAccess) -> SiteAccess:
    return access.model_copy(update={"spec": access.spec.model_copy(update={"listen": EVERYWHERE})})


def _without_secrets(access: SiteAccess) -> SiteAccess:
    blanks = {
        name: _blank(value)
        for name in SiteAccess.model_fields
        if isinstance(value := getattr(access, name), Credential)
    }
    return access.model_copy(update=blanks)


def _blank(credential: Credential) -> Credential:
    return Credential(user=credential.user, password="")
