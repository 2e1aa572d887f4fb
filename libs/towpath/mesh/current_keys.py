"""Give processes of a site the keys that it has now: they may be replaced while these processes run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from towpath.contracts.credential import Credential
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState, SiteAccess

_CERTIFICATES = {"tls", "mqtt_tls"}


def current_password(home: Home, access: SiteAccess, service: str) -> Callable[[], str]:
    """Return what reads the password of a service of this site each time that it logs in."""
    from towpath.bus.connecting import remembered  # Here: commands compare keys, and need no NATS for it.

    def read() -> str:
        return MeshState.load(home).site(access.spec.name).login(service).password

    return remembered(access.login(service).password, read)


def keys_of(access: SiteAccess) -> dict[str, Any]:
    """Return what `towpath site rotate-keys` replaces: credentials, and the files with certificates."""
    return access.model_dump(include=_replaceable(access))


def without_keys(access: SiteAccess) -> str:
    """Return everything else of a site, as JSON: its agent restarts when that changes."""
    return access.model_dump_json(exclude={*_replaceable(access), "invitation"})


def _replaceable(access: SiteAccess) -> set[str]:
    fields = {name: getattr(access, name) for name in type(access).model_fields} | access.logins
    logins = {name for name, value in fields.items() if isinstance(value, Credential)}
    return logins | _CERTIFICATES
