"""Renders the configuration of the hub's and the sites' nats-servers. Pure: state in, text out.

nats-server reads JSON as a subset of its own format, so nothing needs quoting rules of ours. The texts
hold passwords: write them with `write_private_file`.
"""

from __future__ import annotations

import json
from typing import Any

from towpath.contracts.site import Durability
from towpath.mesh import permissions
from towpath.mesh.home import Home
from towpath.mesh.names import SERVER_QUESTIONS
from towpath.mesh.state import Credential, MeshState, SiteAccess

ACCOUNT = "MESH"
"""Hub and sites share one account; permissions separate the users in it."""

SYSTEM_ACCOUNT = "SYS"

HUB_DOMAIN = "hub"

MAX_PAYLOAD = 8 * 1024**2
"""Bytes of one message. A chunk of state is at most one mebibyte; the rest is room for batches."""

MAX_STORE = 1024**4
"""Bytes of streams a server may promise. A promise takes no room: what a full disk cannot take is
refused when it comes. The server's own default, three quarters of what is free, would refuse the tenth
job because nine others may grow to their limits."""

MQTT_MAX_ACK_PENDING = 1024
"""Messages one QoS 1 subscription may leave unacknowledged. All subscriptions of a session share 65,535,
and one that ends in `/#` counts twice: so this allows 31 to 63 of them. At 65,535, a session's second
subscription would be refused."""

MQTT_ACK_WAIT = "10s"
"""After so long an unacknowledged message is sent again. A subscriber whose connection broke gets what
was under way then no sooner, even when it is back at once; one that takes longer gets it twice."""

LEAF_RECONNECT = "1s"

Config = dict[str, Any]


def hub_config(state: MeshState, home: Home) -> str:
    """The configuration of the hub: clients, the sites' leaves, JetStream for events."""
    services = [
        _user(state.coordinator, permissions.coordinator(state.coordinator.user), "STANDARD"),
        _user(state.operator, permissions.operator(state.operator.user), "STANDARD"),
        _user(state.monitor, permissions.monitor(state.monitor.user), "STANDARD"),
        _user(state.injector, permissions.injector(state.injector.user), "STANDARD"),
        _user(state.collector, permissions.collector(state.collector.user), "STANDARD"),
        _user(state.api, permissions.api(state.api.user), "STANDARD"),
    ]
    if state.links is not None:
        services.append(_user(state.links, permissions.links(state.links.user), "STANDARD"))
    leaves = [
        _user(access.leaf, permissions.leaf(site), "LEAFNODE") for site, access in sorted(state.sites.items())
    ]
    return _render(
        {
            **_server(HUB_DOMAIN, state.spec.listen, state.spec.hub_port),
            "jetstream": _jetstream(HUB_DOMAIN, str(home.hub), power_safe=True),
            "leafnodes": {"host": state.spec.listen, "port": state.leaf_port},
            **_accounts([*services, *leaves]),
        }
    )


def site_config(state: MeshState, site: str, home: Home) -> str:
    """The configuration of a site's server: broker, log and link to the hub."""
    access = state.site(site)
    spec = access.spec
    return _render(
        {
            **_server(site, spec.listen, spec.nats_port),
            "jetstream": _jetstream(
                site, str(home.nats(site)), power_safe=spec.durability is Durability.POWER_SAFE
            ),
            "leafnodes": {"reconnect": LEAF_RECONNECT, "remotes": [_remote(state, access)]},
            "mqtt": {
                "host": spec.listen,
                "port": spec.mqtt_port,
                "ack_wait": MQTT_ACK_WAIT,
                "max_ack_pending": MQTT_MAX_ACK_PENDING,
            },
            **_accounts(
                [
                    _user(access.agent, permissions.agent(site, access.agent.user), "STANDARD"),
                    _user(access.engine, permissions.engine(site, access.engine.user), "STANDARD"),
                    _user(access.device, permissions.device(), "MQTT"),
                    *_bridge(access),
                ],
                tells_health=True,
            ),
        }
    )


def _bridge(access: SiteAccess) -> list[Config]:
    if access.bridge is None or not access.is_bridged:
        return []
    allowed = permissions.bridge(access.spec.name, access.bridge.user)
    return [_user(access.bridge, allowed, "STANDARD")]


def _remote(state: MeshState, access: SiteAccess) -> Config:
    leaf = access.leaf
    host, port = state.leaf_remote(access)
    url = f"nats-leaf://{leaf.user}:{leaf.password}@{host}:{port}"
    # The hub tells every leaf its own address; one that followed it would go round an emulated link.
    direct = {"ignore_discovered_servers": True} if state.spec.emulate_links else {}
    return {"url": url, "account": ACCOUNT, **direct}


def _server(name: str, host: str, port: int) -> Config:
    return {
        "server_name": name,
        "host": host,
        "port": port,
        "max_payload": MAX_PAYLOAD,
        "max_pending": 8 * MAX_PAYLOAD,
    }


def _jetstream(domain: str, directory: str, *, power_safe: bool) -> Config:
    config: Config = {"store_dir": directory, "domain": domain, "max_file_store": MAX_STORE}
    if power_safe:
        config["sync_interval"] = "always"
    return config


def _accounts(users: list[Config], *, tells_health: bool = False) -> Config:
    """With `tells_health`, users who may can ask the server, as the system account can, how it is."""
    mesh: Config = {"jetstream": "enabled", "users": users}
    system: Config = {"users": []}
    if tells_health:
        mesh["imports"] = [
            {"service": {"account": SYSTEM_ACCOUNT, "subject": asked}} for asked in SERVER_QUESTIONS
        ]
        system["exports"] = [{"service": asked, "accounts": [ACCOUNT]} for asked in SERVER_QUESTIONS]
    return {"accounts": {ACCOUNT: mesh, SYSTEM_ACCOUNT: system}, "system_account": SYSTEM_ACCOUNT}


def _user(credential: Credential, allowed: permissions.Permissions, connection: str) -> Config:
    return {
        "user": credential.user,
        "password": credential.password,
        "allowed_connection_types": [connection],
        "permissions": allowed,
    }


def _render(config: Config) -> str:
    return json.dumps(config, indent=2) + "\n"
