"""Give a mesh what it keeps: a free port for each listener, and a credential for each user.

Whatever a mesh has been given stays, also while it is not needed: links that are emulated again have the same
ports.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import HUB_SCOPE, now
from towpath.contracts.site import BrokerKind, HubNode, MeshSpec, SiteSpec
from towpath.contracts.tls import is_loopback
from towpath.mesh.broker_description import broker_password, check_broker
from towpath.mesh.credentials import Logins, random_token
from towpath.mesh.home import Home
from towpath.mesh.names import hub_processes
from towpath.mesh.ports import free_port
from towpath.mesh.service_table import Service, hub_services, site_services
from towpath.mesh.state import MeshState, SiteAccess, is_encrypted

_KEPT = (
    "listen",
    "addresses",
    "coordinators",
    "hub",
    "emulate_links",
    "faults",
    "autopilot",
    "failover",
    "storage",
    "tls",
)
"""Settings of the mesh that stay as they were where a spec does not say them, as that of `--sites`."""


def new_mesh(spec: MeshSpec) -> MeshState:
    """Return a new mesh: random passwords, a free port where the spec leaves it open."""
    return _extended(spec, None)


def provision(home: Home, spec: MeshSpec, *, running: bool = False) -> MeshState:
    """Bring the saved mesh to `spec`, or make a new one. Save it when it differs, and return it.

    Sites and services keep ports and credentials, except where the spec now names a port. New sites are
    added. Sites that the spec no longer names stay as they are. Raises `TowpathError`, also if encryption
    would begin or end in a `running` mesh.
    """
    home.create()
    with exclusively(home):
        old = MeshState.load(home) if home.state.exists() else None
        state = _extended(spec, old)
        _check_encryption(state.spec)
        if running and old is not None and (old.tls is not None) != state.spec.is_encrypted:
            raise _switched(state.spec)
        if state.spec.is_encrypted or (old is not None and old.tls is not None):
            # Here: the library takes a while to load, and most meshes need none.
            from towpath.mesh.certificates import with_certificates

            state = with_certificates(state, home)
        if old is None or home.state.read_text() != state.to_text():
            state.save(home)
    for name in state.sites_here:
        home.create_site(name)
    return state


def _check_encryption(spec: MeshSpec) -> None:
    """Raise `TowpathError` if other machines would reach a mesh that encrypts nothing, without being asked
    for, or if a part of it cannot be reached encrypted."""
    if spec.is_exposed and not spec.is_encrypted and not spec.tls.allow_plain:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "other machines reach an address of this mesh, and nothing would be encrypted",
            field="tls.enabled",
            value=False,
            allowed="true; or tls.allow_plain = true in a network that you trust",
        )
    plain = [url for url in (*spec.hub.urls, *spec.hub.leaf_urls) if not is_encrypted([url])]
    exposed = [url for url in plain if not is_loopback(urlsplit(url).hostname or "")]
    if exposed and not spec.tls.allow_plain:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "passwords and events would pass to the hub unencrypted",
            field="hub.urls",
            value=exposed[0],
            allowed="tls://host:port; or tls.allow_plain = true in a network that you trust",
        )
    if not spec.is_encrypted:
        return
    for index, site in enumerate(spec.sites):
        if not is_loopback(site.engine.driver_host):
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "a mesh that encrypts cannot be read by Spark's workers on other machines",
                field=f"sites.{index}.engine.driver_host",
                value=site.engine.driver_host,
                allowed="an address of this machine alone, or tls.enabled = false",
            )


def _switched(spec: MeshSpec) -> TowpathError:
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        "the mesh runs, and its connections cannot become encrypted or plain meanwhile",
        field="tls.enabled",
        value=spec.is_encrypted,
        allowed="`towpath down` first",
    )


def _extended(spec: MeshSpec, old: MeshState | None) -> MeshState:
    named = {site.name for site in spec.sites}
    stay = [] if old is None else [a.spec for name, a in old.sites.items() if name not in named]
    taken = _explicit_ports(spec) | (_ports(old) if old else set())
    sites = [_with_ports(s, old.sites.get(s.name) if old else None, taken) for s in [*stay, *spec.sites]]
    listen = _kept("listen", spec, old)
    filled = spec.model_copy(
        update={
            **{setting: _kept(setting, spec, old) for setting in _KEPT},
            "sites": sites,
            "hub_port": _port(spec.hub_port, old.spec.hub_port if old else 0, listen, taken),
            "redis_port": _port(spec.redis_port, old.spec.redis_port if old else 0, listen, taken),
            "api_port": _port(spec.api_port, old.spec.api_port if old else 0, listen, taken),
            "artefact_root": spec.artefact_root or (old.spec.artefact_root if old else None),
        }
    )
    _check_nodes(filled, old)
    state = _with_nodes(_with_credentials(filled, old, taken), taken)
    return _with_brokers(_with_links(state, taken), taken)


def _check_nodes(spec: MeshSpec, old: MeshState | None) -> None:
    """Raise `TowpathError` (not allowed) if the hub would get another number of servers, or be another one.

    Servers that form a cluster delete streams that the cluster does not know, so those of a single server
    would be lost.
    """
    if old is None:
        return
    if spec.hub.is_elsewhere != old.spec.hub.is_elsewhere:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "another hub has not what this mesh has stored at its own",
            field="hub.urls",
            value=spec.hub.urls,
            allowed="as the mesh was made; or a new mesh in another directory",
        )
    if spec.hub.nodes != old.spec.hub.nodes:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the hub would lose what it has stored, if the number of its servers changed",
            field="hub.nodes",
            value=spec.hub.nodes,
            allowed=f"{old.spec.hub.nodes}; or a new mesh in another directory",
        )


def _with_credentials(filled: MeshSpec, old: MeshState | None, taken: set[int]) -> MeshState:
    needed = [service for service in hub_services() if service.runs(filled)]
    return MeshState(
        spec=filled,
        leaf_port=_port(0, old.leaf_port if old else 0, filled.listen, taken),
        route_port=old.route_port if old else 0,
        further_nodes=old.further_nodes if old else [],
        routes=old.routes if old else None,
        operator=old.operator if old else Credential.random("hub.operator"),
        supervisor=(old.supervisor if old else None) or Credential.random("hub.supervisor"),
        api_token=old.api_token if old else random_token(),
        redis_coordinator=old.redis_coordinator if old else Credential.random("coordinator"),
        sites={s.name: _site(s, old.sites.get(s.name) if old else None) for s in filled.sites},
        tls=old.tls if old else None,
        api_tls=old.api_tls if old else None,
        hub_names=old.hub_names if old else [],
        redis_plain_port=_plain_port(filled, old, taken),
        **_logins(old, HUB_SCOPE, needed),
    )


def _plain_port(spec: MeshSpec, old: MeshState | None, taken: set[int]) -> int:
    kept = old.redis_plain_port if old else 0
    return _port(0, kept, "127.0.0.1", taken) if spec.is_encrypted else kept


def _site(spec: SiteSpec, old: SiteAccess | None) -> SiteAccess:
    if old is not None and old.is_elsewhere:
        invitation = old.invitation
        is_over = old.has_joined and invitation is not None and invitation.expires < now()
        return old.model_copy(update={"spec": spec, "invitation": None if is_over else invitation})
    name = spec.name
    logins = _logins(old, name, site_services())
    if old is not None:
        gateway = old.gateway or Credential.random(f"{name}.gateway")
        operator = old.operator or Credential.random(f"{name}.operator")
        return old.model_copy(update={"spec": spec, "gateway": gateway, "operator": operator, **logins})
    return SiteAccess(
        spec=spec,
        device=Credential.random(f"{name}.device"),
        gateway=Credential.random(f"{name}.gateway"),
        operator=Credential.random(f"{name}.operator"),
        leaf=Credential.random(f"{name}.leaf"),
        redis=Credential.random(name),
        **logins,
    )


def _logins(old: Logins | None, scope: str, needed: list[Service]) -> Mapping[str, Any]:
    """Return the credentials of services that there are, and fresh ones for those that now need one."""
    fresh = {service.name: Credential.random(service.user(scope)) for service in needed}
    return fresh | (old.logins if old else {})


def _kept(setting: str, spec: MeshSpec, old: MeshState | None) -> Any:
    """Return a setting as the spec says; a spec that does not say leaves it as it was."""
    said = spec if old is None or setting in spec.model_fields_set else old.spec
    return getattr(said, setting)


def _with_nodes(state: MeshState, taken: set[int]) -> MeshState:
    """Add ports and the password of the hub's further servers, if it has several."""
    names = hub_processes(state.spec.hub.nodes)
    if len(state.further_nodes) == len(names) - 1:
        return state
    listen = state.spec.listen
    further = [
        HubNode(
            name=name,
            port=free_port(taken, address=listen),
            leaf_port=free_port(taken, address=listen),
            route_port=free_port(taken),
        )
        for name in names[1:]
    ]
    routes = Credential.random("hub.routes")
    update = {"route_port": free_port(taken), "further_nodes": further, "routes": routes}
    return state.model_copy(update=update)


def _with_links(state: MeshState, taken: set[int]) -> MeshState:
    """Add ports for each link, if links are emulated."""
    if not state.spec.emulate_links:
        return state
    listen = state.spec.listen
    sites = {
        name: access.model_copy(
            update={
                "link_port": _port(0, access.link_port, listen, taken),
                "link_redis_port": _port(0, access.link_redis_port, listen, taken),
            }
        )
        for name, access in state.sites.items()
    }
    return state.model_copy(update={"sites": sites})


def _with_brokers(state: MeshState, taken: set[int]) -> MeshState:
    """Add what bridges need, and what devices use at a broker that was there before."""
    sites = {name: _with_broker(access, taken) for name, access in state.sites.items()}
    return state.model_copy(update={"sites": sites})


def _with_broker(access: SiteAccess, taken: set[int]) -> SiteAccess:
    if access.is_elsewhere:
        return access
    name, broker = access.spec.name, access.spec.broker
    device = access.device
    if device.user != f"{name}.device":
        device = Credential.random(f"{name}.device")  # The site had a broker of other people before.
    port = access.broker_port
    if access.is_bridged:
        check_broker(broker)
    if access.is_bridged and broker.host is not None:
        device = Credential(user=broker.user or "", password=broker_password(broker))
        port = broker.port or (8883 if broker.tls else 1883)
    elif access.is_bridged:
        port = _port(broker.port, port, access.spec.listen, taken)
    commands = access.commands or (None if broker.shared_device else Credential.random(f"{name}.commands"))
    bridge = access.bridge or (Credential.random(f"{name}.bridge") if access.is_bridged else None)
    changes = {"device": device, "commands": commands, "broker_port": port, "bridge": bridge}
    return access.model_copy(update=changes)


def _with_ports(site: SiteSpec, old: SiteAccess | None, taken: set[int]) -> SiteSpec:
    if old is not None and old.is_elsewhere:
        return site
    nats_port = _port(site.nats_port, old.spec.nats_port if old else 0, site.listen, taken)
    mqtt_port = _port(site.mqtt_port, old.spec.mqtt_port if old else 0, site.listen, taken)
    return site.model_copy(update={"nats_port": nats_port, "mqtt_port": mqtt_port})


def _port(wanted: int, kept: int, listen: str, taken: set[int]) -> int:
    port = wanted or kept or free_port(taken, address=listen)
    taken.add(port)
    return port


def _ports(state: MeshState) -> set[int]:
    sites = {p for a in state.sites.values() for p in _listeners(a)}
    hub = {port for node in state.hub_nodes for port in (node.port, node.leaf_port, node.route_port)}
    return sites | hub | {state.redis_plain_port, state.spec.redis_port, state.spec.api_port}


def _listeners(access: SiteAccess) -> tuple[int, ...]:
    own_broker = 0 if access.spec.broker.host else access.broker_port
    links = access.link_port, access.link_redis_port
    return access.spec.nats_port, access.spec.mqtt_port, *links, own_broker


def _explicit_ports(spec: MeshSpec) -> set[int]:
    """Return the ports that the spec names. Raises `TowpathError` when two listeners have the same one."""
    named = {"hub_port": spec.hub_port, "redis_port": spec.redis_port, "api_port": spec.api_port}
    for index, site in enumerate(spec.sites):
        named |= {f"sites.{index}.nats_port": site.nats_port, f"sites.{index}.mqtt_port": site.mqtt_port}
        if site.broker.kind is not BrokerKind.NATS and site.broker.host is None:
            named[f"sites.{index}.broker.port"] = site.broker.port
    seen: set[int] = set()
    for field, port in named.items():
        if port in seen:
            raise TowpathError(
                ErrorCode.INVALID,
                "two listeners on one port",
                field=field,
                value=port,
                allowed="a port of its own, or 0 for any",
            )
        seen |= {port} - {0}
    return seen


@contextmanager
def exclusively(home: Home) -> Iterator[None]:
    """Keep others from changing the saved mesh meanwhile."""
    with home.state_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
