"""Let a machine join a mesh as one site, and replace keys: invite it, admit it, and make its own keys.

The hub's machine keeps of such a site what its servers must know: the passwords of its leaf and at Redis.
The joining machine makes them, and all other keys of the site, so the bundle has none. An invitation takes
keys once. The same keys may come again until its time is over: that machine may be killed before it has heard
the answer.

**Keys of a site on the hub's machine** are replaced in one step: the mesh's file is written. Servers, agent
and engine take them from there. Killed before it: nothing has changed. Killed after it: the agent has the new
keys, and the hub's servers get them from the same command again.

**Keys of a site on another machine** are made there, as the first ones were, and come with a bundle:

| step | on the machine of | when it is lost, or the process is killed behind it |
|---|---|---|
| 1. `renewing`: a new invitation is saved | the hub | the old keys work; the same command again |
| 2. its login is known to the hub's server | the hub | the same |
| 3. `with_keys_for`: new keys are saved beside the old ones | the site | old keys work; `join` sends these |
| 4. `JoinSite` is sent | the site | the same; it is repeated with the same keys |
| 5. `admitted`: the hub saves the new keys | the hub | the next supervisor gives them to its servers |
| 6. the hub's servers restart | the hub | old keys open nothing; the link waits for step 7 |
| 7. `with_renewed`: the answer came, the site uses the new keys | the site | its agent finds them |

`towpath join` with the same bundle completes what stopped between 3 and 7. If the bundle is over by then, a
new one does. So old keys work until the hub has saved the new ones, and end with the restart of its servers.

The old keys are no proof on this way: a thief who has a copy could replace them before their owner does.
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import Bundle, Invitation, JoinSite
from towpath.contracts.message import SiteName
from towpath.contracts.site import Addresses, SiteSpec
from towpath.contracts.tls import TlsSpec, is_loopback
from towpath.mesh.credentials import bridge_session
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
    access = SiteAccess(
        spec=spec,
        device=Credential(user=f"{name}.device", password=""),
        leaf=Credential(user=f"{name}.leaf", password=""),
        redis=Credential(user=name, password=""),
        is_elsewhere=True,
    )
    return _inviting(state, access, host, expires_s, at)


def renewing(
    state: MeshState, site: SiteName, host: str | None, expires_s: float, at: datetime
) -> tuple[MeshState, Bundle]:
    """Return the mesh that waits for other keys of a site that has joined, and the bundle for its machine.

    Without `host`, that machine reaches this one where it did before. Its keys stay until it has sent others.
    Raises `TowpathError` if it has not joined, or no address is known.
    """
    access = state.site(site)
    if not access.has_joined:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the site has no keys yet",
            field="site",
            value=site,
            allowed="its bundle, or another one of `towpath site add`",
        )
    host = host or access.hub_host
    if not host:
        raise TowpathError(
            ErrorCode.INVALID,
            "no address of this machine is known to that site",
            field="hub",
            allowed="--hub",
        )
    return _inviting(state, access.model_copy(update={"is_renewing": True}), host, expires_s, at)


def _inviting(
    state: MeshState, access: SiteAccess, host: str, expires_s: float, at: datetime
) -> tuple[MeshState, Bundle]:
    if is_loopback(state.spec.listen) and not is_loopback(host):
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the hub takes connections from this machine only",
            field="listen",
            value=state.spec.listen,
            allowed="in the file for `towpath up --config`, an address that other machines reach",
        )
    name = access.spec.name
    user = f"{name}.join"
    invitation = Invitation(
        user=user, password=Credential.random(user).password, expires=at + timedelta(seconds=expires_s)
    )
    others = [each for each in state.spec.sites if each.name != name]
    changed = state.model_copy(
        update={
            "spec": state.spec.model_copy(update={"sites": [*others, access.spec]}),
            "sites": {
                **state.sites,
                name: access.model_copy(update={"invitation": invitation, "hub_host": host}),
            },
            "hub_names": sorted({*state.hub_names, host}),
        }
    )
    return changed, _bundle(changed, access.spec, host, invitation)


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
    return Bundle(
        mesh=mesh, leaf_port=state.leaf_port, further_nodes=state.further_nodes, invitation=invitation
    )


def admitted(state: MeshState, command: JoinSite, at: datetime) -> MeshState:
    """Return the mesh after a site has joined. The same keys once more change nothing.

    Raises `TowpathError` (not allowed) if the site is not invited, if its time is over, or if the sender does
    not hold its invitation.
    """
    access = state.sites.get(command.site)
    if access is None or not access.is_elsewhere:
        raise _refused(command.site, "no machine is invited as this site")
    if (access.leaf.password, access.redis.password) == (command.leaf, command.redis):
        return state
    if access.invitation is None:
        raise _refused(command.site, "the invitation was used already")
    if not secrets.compare_digest(command.proof or "", proof_of(access.invitation)):
        raise _refused(command.site, "this is not the invitation of this site, or Towpath is older there")
    if access.has_joined and not access.is_renewing:
        raise _refused(command.site, "the invitation was used already")
    if at >= access.invitation.expires:
        raise _refused(
            command.site, f"the invitation expired at {access.invitation.expires:%Y-%m-%d %H:%M} UTC"
        )
    keys = {
        "leaf": Credential(user=access.leaf.user, password=command.leaf),
        "redis": Credential(user=access.redis.user, password=command.redis),
        "is_renewing": False,
    }
    return state.model_copy(update={"sites": {**state.sites, command.site: access.model_copy(update=keys)}})


def proof_of(invitation: Invitation) -> str:
    """Return what only a holder of the invitation can send.

    Its login does not say that: with that of any invitation, even a used one, one can ask as any site.
    """
    return hashlib.sha256(f"{invitation.user}:{invitation.password}".encode()).hexdigest()


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
    own = made.site(bundle.site).model_copy(update={"invitation": bundle.invitation})
    told = {
        "supervisor": None,
        "leaf_port": bundle.leaf_port,
        "further_nodes": bundle.further_nodes,
        "joined": bundle.site,
        "sites": {bundle.site: own},
    }
    return made.model_copy(update={**blanked(made), **told})


def with_keys_for(state: MeshState, bundle: Bundle) -> MeshState:
    """Return what a machine that has joined saves before it redeems a bundle.

    That are new keys beside those in use, and where the hub is now. The bundle that it has redeemed, or has
    begun to redeem, changes nothing.
    """
    known = (state.site(bundle.site), state.renewed)
    if any(access.invitation == bundle.invitation for access in known if access is not None):
        return state
    renewed = with_new_keys(state.site(bundle.site), with_devices=bundle.with_devices)
    hub = {name: getattr(bundle.mesh, name) for name in ("addresses", "hub", "hub_port", "redis_port")}
    return state.model_copy(
        update={
            "renewed": renewed.model_copy(update={"invitation": bundle.invitation}),
            "spec": state.spec.model_copy(update=hub),
            "leaf_port": bundle.leaf_port,
            "further_nodes": bundle.further_nodes,
        }
    )


def rotated(state: MeshState, site: SiteName, *, with_devices: bool) -> MeshState:
    """Return the mesh with new keys of a site on this machine. Certificates are missing, see
    `towpath.mesh.certificates`. Raises `TowpathError` if the site is unknown.
    """
    fresh = with_new_keys(state.site(site), with_devices=with_devices)
    own = fresh.model_copy(update={"tls": None, "mqtt_tls": None})
    return state.model_copy(update={"sites": {**state.sites, site: own}})


def with_new_keys(access: SiteAccess, *, with_devices: bool) -> SiteAccess:
    """Return a site with new passwords. Those of devices and gateways stay, unless `with_devices`."""
    own = {"leaf": access.leaf, "redis": access.redis, "operator": access.operator, "bridge": access.bridge}
    if with_devices:
        # Devices of a broker that was there before have a login of its owner.
        own |= {"gateway": access.gateway} | ({} if access.spec.broker.host else {"device": access.device})
    fresh = {name: Credential.random(key.user) for name, key in {**own, **access.logins}.items() if key}
    session = access.bridge_session or (bridge_session(access.bridge) if access.bridge else None)
    return access.model_copy(update={**fresh, "bridge_session": session})


def with_renewed(state: MeshState, access: SiteAccess) -> MeshState:
    """Return the mesh of a machine whose site uses these keys, which the hub has taken."""
    return state.model_copy(update={"sites": {access.spec.name: access}, "renewed": None})


def join_command(access: SiteAccess, certificate_request: str | None = None) -> JoinSite:
    """Return the command that tells the hub the keys of a joining site."""
    return JoinSite(
        site=access.spec.name,
        leaf=access.leaf.password,
        redis=access.redis.password,
        proof=proof_of(access.invitation) if access.invitation else None,
        certificate_request=certificate_request,
    )


def _refused(site: str, why: str) -> TowpathError:
    return TowpathError(
        ErrorCode.NOT_ALLOWED, why, field="site", value=site, allowed="a bundle of `towpath site add`"
    )
