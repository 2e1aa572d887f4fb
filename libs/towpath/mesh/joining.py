"""Let a machine join a mesh as one site: invite it, admit it, and make its own keys.

The hub's machine keeps of such a site what its servers must know: the passwords of its leaf and at Redis.
The joining machine makes them, and all other keys of the site, so the bundle has none. An invitation takes
keys once. The same keys may come again until its time is over: that machine may be killed before it has heard
the answer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import Bundle, Invitation, JoinSite
from towpath.contracts.message import SiteName
from towpath.contracts.site import Addresses, SiteSpec
from towpath.contracts.tls import TlsSpec, is_loopback
from towpath.mesh.credentials import Credential
from towpath.mesh.provisioning import new_mesh
from towpath.mesh.state import MeshState, SiteAccess
from towpath.mesh.views import blanked


def invited(
    state: MeshState, spec: SiteSpec, host: str, expires_s: float, at: datetime
) -> tuple[MeshState, Bundle]:
    """Return the mesh with a site that another machine may join as, and the bundle for that machine.

    `host` is the address of this machine, as that one reaches it. A site that has not joined yet gets a new
    invitation; the former one ends. Raises `TowpathError` if the site is here, or has joined, or if the hub
    cannot be reached from other machines.
    """
    name, old = spec.name, state.sites.get(spec.name)
    if old is not None and (not old.is_elsewhere or old.has_joined):
        where = "has joined" if old.is_elsewhere else "runs on this machine"
        raise TowpathError(
            ErrorCode.NAME_IN_USE, f"the site {where}", field="site", value=name, allowed="another name"
        )
    if is_loopback(state.spec.listen) and not is_loopback(host):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the hub takes connections from this machine only",
            field="listen",
            value=state.spec.listen,
            allowed="in the file for `towpath up --config`, an address that other machines reach",
        )
    user = f"{name}.join"
    invitation = Invitation(
        user=user, password=Credential.random(user).password, expires=at + timedelta(seconds=expires_s)
    )
    access = SiteAccess(
        spec=spec,
        device=Credential(user=f"{name}.device", password=""),
        leaf=Credential(user=f"{name}.leaf", password=""),
        redis=Credential(user=name, password=""),
        is_elsewhere=True,
        invitation=invitation,
    )
    others = [each for each in state.spec.sites if each.name != name]
    mesh = state.spec.model_copy(update={"sites": [*others, spec]})
    names = sorted({*state.hub_names, host})
    changed = state.model_copy(
        update={"spec": mesh, "sites": {**state.sites, name: access}, "hub_names": names}
    )
    return changed, _bundle(changed, spec, host, invitation)


def _bundle(state: MeshState, spec: SiteSpec, host: str, invitation: Invitation) -> Bundle:
    told = {
        "sites": [spec],
        "addresses": Addresses(hub=host, redis=host),
        "listen": "127.0.0.1",
        "artefact_root": None,
        "emulate_links": False,
        "api_port": 0,
        "tls": TlsSpec(enabled=state.tls is not None),
    }
    mesh = state.spec.model_copy(update=told)
    return Bundle(mesh=mesh, leaf_port=state.leaf_port, invitation=invitation)


def admitted(state: MeshState, command: JoinSite, at: datetime) -> MeshState:
    """Return the mesh after a site has joined. The same keys once more change nothing.

    Raises `TowpathError` (not allowed) if the site is not invited, or its time is over.
    """
    access = state.sites.get(command.site)
    if access is None or not access.is_elsewhere:
        raise _refused(command.site, "no machine is invited as this site")
    if (access.leaf.password, access.redis.password) == (command.leaf, command.redis):
        return state
    if access.has_joined or access.invitation is None:
        raise _refused(command.site, "the invitation was used already")
    if at >= access.invitation.expires:
        raise _refused(
            command.site, f"the invitation expired at {access.invitation.expires:%Y-%m-%d %H:%M} UTC"
        )
    keys = {
        "leaf": Credential(user=access.leaf.user, password=command.leaf),
        "redis": Credential(user=access.redis.user, password=command.redis),
    }
    return state.model_copy(update={"sites": {**state.sites, command.site: access.model_copy(update=keys)}})


def without_site(state: MeshState, site: SiteName) -> MeshState:
    """Return the mesh without a site on another machine. Its keys open nothing any more.

    Raises `TowpathError` if there is none, or it runs on this machine.
    """
    if not state.site(site).is_elsewhere:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the site runs on this machine",
            field="site",
            value=site,
            allowed="a site on another machine",
        )
    left = {name: access for name, access in state.sites.items() if name != site}
    mesh = state.spec.model_copy(update={"sites": [each.spec for each in left.values()]})
    return state.model_copy(update={"spec": mesh, "sites": left})


def joining_mesh(bundle: Bundle) -> MeshState:
    """Return what the joining machine saves: the site with new keys of its own, and none of the hub."""
    made = new_mesh(bundle.mesh)
    told = {"supervisor": None, "leaf_port": bundle.leaf_port, "joined": bundle.site}
    return made.model_copy(update={**blanked(made), **told})


def join_command(access: SiteAccess, certificate_request: str | None = None) -> JoinSite:
    """Return the command that tells the hub the keys of a joining site."""
    return JoinSite(
        site=access.spec.name,
        leaf=access.leaf.password,
        redis=access.redis.password,
        certificate_request=certificate_request,
    )


def _refused(site: str, why: str) -> TowpathError:
    return TowpathError(
        ErrorCode.NOT_ALLOWED, why, field="site", value=site, allowed="a bundle of `towpath site add`"
    )
