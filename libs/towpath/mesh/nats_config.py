"""Render the configuration of the hub's and the sites' nats-servers. Pure: state in, text out.

nats-server reads JSON as a subset of its own format, so nothing needs quoting rules of ours. The texts hold
passwords: write them with `write_private_file`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from towpath.contracts.credential import Credential
from towpath.contracts.data_plane import DEAD_LINK_S, api_prefix
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import Durability, HubNode
from towpath.contracts.tls import is_loopback
from towpath.mesh import permissions
from towpath.mesh.credentials import Logins
from towpath.mesh.device_users import DeviceUser, user_of
from towpath.mesh.home import Home
from towpath.mesh.names import SERVER_NOTICES, SERVER_QUESTIONS
from towpath.mesh.service_table import Service, hub_services, site_services
from towpath.mesh.state import MeshState, SiteAccess, is_encrypted
from towpath.mesh.tls_files import TlsFiles

ACCOUNT = "MESH"
"""Hub and sites share one account; permissions separate the users in it."""

SYSTEM_ACCOUNT = "SYS"

MAX_PAYLOAD = 8 * 1024**2
"""Bytes of one message. A chunk of state has at most one mebibyte; the rest is room for batches."""

MAX_CONSUMERS = 100_000
"""Consumers of a stream. Each QoS 1 subscription of an MQTT session is one. nats-server's default of 1,000
holds for all subscribers of a site together. More were refused, without a reason that MQTT could tell."""

MAX_STORE = 1024**4
"""Bytes that a server may promise to streams. A promise takes no room: a full disk refuses messages when they
come. The server's own default, three quarters of the free space, would refuse the tenth job because nine
others may grow to their limits."""

MQTT_MAX_ACK_PENDING = 1024
"""Messages that one QoS 1 subscription may leave unacknowledged. All subscriptions of a session share 65,535,
and one that ends in `/#` counts twice: so this allows 31 to 63 of them. At 65,535, a session's second
subscription would be refused."""

MQTT_ACK_WAIT = "10s"
"""An unacknowledged message is sent again after this time. A subscriber whose connection broke gets the
messages that were under way no sooner, even when it is back at once. A subscriber that takes longer gets them
twice."""

MQTT_STORE_WAIT = "60s"
"""The MQTT side waits so long for IN before it closes a device's connection without an acknowledgement.

A disk that syncs every event may need more than the server's own five seconds for all events under way."""

LEAF_RECONNECT = "1s"

CLUSTER = "towpath-hub"
"""Name of the cluster of the hub's servers. No server has it: one without a cluster, at a site, tells clients
that its cluster has its own name."""

ROUTES_HOST = "127.0.0.1"
"""The hub's servers are all on one machine."""

HANDSHAKE_S = 10
"""Time for a handshake, seconds. The server's own default of two is short for a small machine that starts."""

Config = dict[str, Any]


def hub_config(state: MeshState, home: Home, node: HubNode | None = None) -> str:
    """Return the configuration of a server of the hub, of the first if `node` is None: clients, the sites'
    leaves, JetStream for events."""
    node = node or state.hub_nodes[0]
    return _render(
        {
            **_server(node.name, state.spec.listen, node.port),
            **_client_tls(state.tls),
            **_cluster(state, node),
            "jetstream": _jetstream(HUB_SCOPE, str(home.hub_node(node.name)), power_safe=True),
            "leafnodes": {
                "host": state.spec.listen,
                "port": node.leaf_port,
                **_compression(state.spec.hub.compression == "auto"),
                **_mutual_tls(state.tls),
            },
            **_accounts(_hub_users(state), notices=SERVER_NOTICES),
        }
    )


def hub_account(state: MeshState) -> str:
    """Return the account of the mesh for a NATS deployment that is its hub, to be included there.

    The deployment's JetStream may have another domain than `hub`, or none.
    """
    asked = f"{api_prefix(HUB_SCOPE)}.>"
    mapped = {asked: "$JS.API.>"}
    return _render({"jetstream": "enabled", "mappings": mapped, "users": _hub_users(state)})


def _hub_users(state: MeshState) -> list[Config]:
    commanded = [service.name for service in hub_services() if service.commanded_by_clients]
    operator = permissions.operator(state.operator.user, commanded)
    users = [_user(state.operator, operator.permissions()), *_service_users(state, hub_services(), HUB_SCOPE)]
    leaves = [
        _user(access.leaf, permissions.leaf(site).permissions(), "LEAFNODE")
        for site, access in sorted(state.sites.items())
        if access.has_joined
    ]
    return [*users, *_supervisor(state), *_invited(state), *leaves]


def _client_tls(tls: TlsFiles | None) -> Config:
    """Return how the hub takes clients: they have passwords, and machines that join no certificate yet.

    Our clients begin with the handshake, so no one on the way can talk them out of it. `auto` also takes
    those that wait for a greeting.
    """
    return {} if tls is None else {"tls": tls.server_block(handshake_first="auto", timeout=HANDSHAKE_S)}


def _mutual_tls(tls: TlsFiles | None) -> Config:
    """Return how hub and sites speak: each shows the other a certificate of the mesh's authority."""
    if tls is None:
        return {}
    return {"tls": tls.server_block(verify=True, handshake_first=True, timeout=HANDSHAKE_S)}


def _compression(wanted: bool) -> Config:
    """Return how a link is compressed. If it is `wanted`, the server decides by the time of a round trip.

    It then keeps buffers of megabytes for each link, also for those that it does not compress.
    """
    return {} if wanted else {"compression": "off"}


def _cluster(state: MeshState, node: HubNode) -> Config:
    """Return how a server of a hub with several finds the others, and shows them who it is."""
    login = state.routes
    if login is None:
        return {}
    others = [other.route_port for other in state.hub_nodes if other.name != node.name]
    tls = {} if state.tls is None else {"tls": state.tls.server_block(verify=True, timeout=HANDSHAKE_S)}
    cluster: Config = {
        "name": CLUSTER,
        "host": ROUTES_HOST,
        "port": node.route_port,
        "authorization": {"user": login.user, "password": login.password},
        "routes": [f"nats-route://{login.user}:{login.password}@{ROUTES_HOST}:{port}" for port in others],
        # Clients know all addresses. Those that servers tell each other are not in their certificates.
        "no_advertise": True,
        **tls,
    }
    return {"cluster": cluster}


def _supervisor(state: MeshState) -> list[Config]:
    if state.supervisor is None:
        return []
    return [_user(state.supervisor, permissions.supervisor(state.supervisor.user).permissions())]


def _invited(state: MeshState) -> list[Config]:
    """Return the users of machines that may join. The supervisor looks whether an invitation has expired."""
    invitations = (access.invitation for access in state.sites.values())
    return [_user(one, permissions.invited(one.user).permissions()) for one in invitations if one is not None]


def site_config(
    state: MeshState,
    site: str,
    home: Home,
    *,
    admits_devices: bool = True,
    devices: Sequence[DeviceUser] = (),
) -> str:
    """Return the configuration of a site's server: broker, log and link to the hub.

    `devices` have users of their own.
    """
    access = state.site(site)
    spec = access.spec
    mqtt = {
        "host": spec.listen,
        "port": spec.mqtt_port,
        "ack_wait": MQTT_ACK_WAIT,
        "max_ack_pending": MQTT_MAX_ACK_PENDING,
        "js_api_timeout": MQTT_STORE_WAIT,
        **({} if access.mqtt_tls is None else {"tls": _shown(access.mqtt_tls)}),
    }
    return _render(
        {
            **_server(site, access.nats_listen, spec.nats_port),
            "jetstream": _jetstream(
                site, str(home.nats(site)), power_safe=spec.durability is Durability.POWER_SAFE
            ),
            "leafnodes": {"reconnect": LEAF_RECONNECT, "remotes": [_remote(state, access)]},
            **({"mqtt": mqtt} if admits_devices else {}),
            **_accounts(
                [
                    *_service_users(access, site_services(), site),
                    _user(access.client, permissions.device().permissions(), "MQTT"),
                    *(_device(site, each) for each in devices),
                    *_gateway(access),
                    *_operator(access),
                    *_bridge(access),
                ],
            ),
        }
    )


def _shown(tls: TlsFiles) -> Config:
    """Return a block without authority: devices show no certificate."""
    return {"cert_file": tls.certificate_file, "key_file": tls.key_file, "timeout": HANDSHAKE_S}


def _device(site: str, device: DeviceUser) -> Config:
    rights = permissions.device_user(device.publish, device.subscribe)
    login = Credential(user=user_of(site, device.name), password=device.bcrypt)
    return _user(login, rights.permissions(), "MQTT")


def _gateway(access: SiteAccess) -> list[Config]:
    if access.gateway is None:
        return []
    return [_user(access.gateway, permissions.gateway().permissions(), "MQTT")]


def _operator(access: SiteAccess) -> list[Config]:
    if access.operator is None:
        return []
    rights = permissions.site_operator(access.spec.name, access.operator.user)
    return [_user(access.operator, rights.permissions())]


def _bridge(access: SiteAccess) -> list[Config]:
    if access.bridge is None or not access.is_bridged:
        return []
    rights = permissions.bridge(access.spec.name, access.bridge.user)
    return [_user(access.bridge, rights.permissions())]


def _service_users(logins: Logins, services: list[Service], scope: str) -> list[Config]:
    """Return the users of these services, of those that have a credential."""
    return [
        _user(logins.login(service.name), service.permissions(scope))
        for service in services
        if service.name in logins.logins
    ]


def _remote(state: MeshState, access: SiteAccess) -> Config:
    leaf = access.leaf
    remotes = state.leaf_remotes(access)
    urls = [f"nats-leaf://{leaf.user}:{leaf.password}@{host}:{port}" for host, port in remotes]
    hub = state.spec.hub
    hub_is_here = not state.spec.emulate_links and all(is_loopback(host) for host, _ in remotes)
    link = {"urls": urls, "account": ACCOUNT, **_compression(not hub_is_here)}
    if hub.is_elsewhere:
        authority = {"ca_file": hub.ca_file} if hub.ca_file else {}
        own = {"tls": {**authority, "handshake_first": True}} if is_encrypted(hub.leaf_urls) else {}
        return {**link, "ignore_discovered_servers": True, **own}
    # The hub tells every leaf its own address. A leaf that followed it would bypass an emulated link.
    # It also has other names than those in its certificate.
    direct = {"ignore_discovered_servers": True} if state.spec.emulate_links or access.tls else {}
    own = {} if access.tls is None else {"tls": access.tls.server_block(handshake_first=True)}
    return {**link, **direct, **own}


def _server(name: str, host: str, port: int) -> Config:
    return {
        "server_name": name,
        "host": host,
        "port": port,
        "max_payload": MAX_PAYLOAD,
        "ping_interval": f"{DEAD_LINK_S / 3:g}s",
        "ping_max": 2,
        "max_pending": 8 * MAX_PAYLOAD,
    }


def _jetstream(domain: str, directory: str, *, power_safe: bool) -> Config:
    config: Config = {
        "store_dir": directory,
        "domain": domain,
        "max_file_store": MAX_STORE,
        "limits": {"default_max_consumers": MAX_CONSUMERS},
    }
    if power_safe:
        config["sync_interval"] = "always"
    return config


def _accounts(users: list[Config], *, notices: tuple[str, ...] = ()) -> Config:
    """Users with the permission can ask the server about its health, and hear its `notices`."""
    offered = [("service", asked) for asked in SERVER_QUESTIONS] + [("stream", told) for told in notices]
    mesh: Config = {
        "jetstream": "enabled",
        "users": users,
        "imports": [{kind: {"account": SYSTEM_ACCOUNT, "subject": subject}} for kind, subject in offered],
    }
    exports = [{kind: subject, "accounts": [ACCOUNT]} for kind, subject in offered]
    system: Config = {"users": [], "exports": exports}
    return {"accounts": {ACCOUNT: mesh, SYSTEM_ACCOUNT: system}, "system_account": SYSTEM_ACCOUNT}


def _user(credential: Credential, allowed: permissions.Permissions, connection: str = "STANDARD") -> Config:
    return {
        "user": credential.user,
        "password": credential.password,
        "allowed_connection_types": [connection],
        "permissions": allowed,
    }


def _render(config: Config) -> str:
    return json.dumps(config, indent=2) + "\n"
