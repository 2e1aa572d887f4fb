"""What a mesh has been given once and keeps: ports and credentials, for each site and the services."""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field, ValidationError

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.contracts.site import BrokerKind, MeshSpec, SiteSpec
from towpath.mesh.broker_description import broker_password, check_broker
from towpath.mesh.home import Home
from towpath.mesh.ports import free_port
from towpath.mesh.private_file import write_private_file

PASSWORD_BYTES = 24
"""192 random bits: nothing to be guessed, also offline."""


class Credential(Model):
    """A user name and its password."""

    user: str
    password: str

    @classmethod
    def random(cls, user: str) -> Credential:
        """A fresh password for `user`. It holds no character that a URL or a configuration must quote."""
        return cls(user=user, password=secrets.token_hex(PASSWORD_BYTES))


def random_token() -> str:
    """A fresh bearer token."""
    return secrets.token_urlsafe(PASSWORD_BYTES)


class SiteAccess(Model):
    """A site with its ports filled in, and what its processes and devices log in with."""

    spec: SiteSpec
    agent: Credential
    engine: Credential
    device: Credential
    leaf: Credential
    """The site's server at the hub."""
    redis: Credential
    link_port: int = 0
    """Where the site's server finds its emulated link to the hub; 0 while links were never emulated."""
    link_redis_port: int = 0
    """Where the site's agent finds Redis through the same link; 0 while links were never emulated."""
    broker_port: int = 0
    """Port of the broker that devices use beside the site's own server; 0 while there was never one."""
    bridge: Credential | None = None
    """What the agent's bridge uses at the site's server, and at a broker that the agent runs; null while
    devices always used the site's own server."""

    @classmethod
    def create(cls, spec: SiteSpec) -> SiteAccess:
        """Fresh credentials for a site."""
        name = spec.name
        return cls(
            spec=spec,
            agent=Credential.random(f"{name}.agent"),
            engine=Credential.random(f"{name}.engine"),
            device=Credential.random(f"{name}.device"),
            leaf=Credential.random(f"{name}.leaf"),
            redis=Credential.random(name),
        )

    @property
    def nats_url(self) -> str:
        """Where the site's server is reached from this machine."""
        return f"nats://{reachable(self.spec.listen)}:{self.spec.nats_port}"

    @property
    def mqtt_host(self) -> str:
        """Host of the broker for devices, as reached from this machine."""
        return self.spec.broker.host or reachable(self.spec.listen)

    @property
    def mqtt_port(self) -> int:
        """Port of the broker for devices."""
        return self.broker_port if self.is_bridged else self.spec.mqtt_port

    @property
    def is_bridged(self) -> bool:
        """Whether devices use another broker than the site's own server."""
        return self.spec.broker.kind is not BrokerKind.NATS


class MeshState(Model):
    """A mesh with its ports filled in, and all its credentials."""

    spec: MeshSpec
    leaf_port: int
    """Where the hub takes the sites' servers."""
    coordinator: Credential
    operator: Credential
    """What people and the command line use at the hub."""
    monitor: Credential = Field(default_factory=lambda: Credential.random("hub.monitor"))
    """A mesh saved before there was a monitor gets one at the next start."""
    injector: Credential = Field(default_factory=lambda: Credential.random("hub.injector"))
    """What the injector of faults uses at the hub. Made at the next start where it is missing."""
    collector: Credential = Field(default_factory=lambda: Credential.random("hub.collector"))
    """What the collector of metrics uses at the hub. Made at the next start where it is missing."""
    api: Credential = Field(default_factory=lambda: Credential.random("hub.api"))
    """What the REST interface uses at the hub. Made at the next start where it is missing."""
    api_token: str = Field(default_factory=random_token)
    """What clients of the REST interface must show."""
    redis_coordinator: Credential
    links: Credential | None = None
    """What the process of the emulated links uses at the hub; null while links were never emulated."""
    sites: dict[str, SiteAccess]

    @property
    def hub_url(self) -> str:
        """Where services reach the hub."""
        return f"nats://{self.hub_host}:{self.spec.hub_port}"

    @property
    def hub_host(self) -> str:
        """Host of the hub's server."""
        return self.spec.addresses.hub or reachable(self.spec.listen)

    @property
    def api_url(self) -> str:
        """Where the REST interface is reached from this machine."""
        return f"http://{reachable(self.spec.listen)}:{self.spec.api_port}"

    @property
    def redis_host(self) -> str:
        """Host of Redis, as services reach it."""
        return self.spec.addresses.redis or reachable(self.spec.listen)

    @property
    def redis_port(self) -> int:
        """Port of Redis."""
        return self.spec.redis_port

    @property
    def links_host(self) -> str:
        """Host of the emulated links."""
        return self.spec.addresses.links or reachable(self.spec.listen)

    def process_environment(self, home: Home, scope: str, process: str) -> dict[str, str]:
        """What a process of this mesh, and those it starts, find in their environment beside the usual."""
        return home.fault_environment(scope, process) if self.spec.faults.enabled else {}

    def leaf_remote(self, access: SiteAccess) -> tuple[str, int]:
        """Where a site's server connects: its emulated link, or the hub itself."""
        if self.spec.emulate_links:
            return self.links_host, access.link_port
        return self.hub_host, self.leaf_port

    def redis_remote(self, access: SiteAccess) -> tuple[str, int]:
        """Where a site's agent finds Redis: at its emulated link, or directly."""
        if self.spec.emulate_links:
            return self.links_host, access.link_redis_port
        return self.redis_host, self.redis_port

    def site(self, name: str) -> SiteAccess:
        """One site. Raises `TowpathError` (unknown site)."""
        try:
            return self.sites[name]
        except KeyError:
            raise TowpathError(
                ErrorCode.UNKNOWN_SITE, "no such site", field="site", value=name, allowed=sorted(self.sites)
            ) from None

    @classmethod
    def create(cls, spec: MeshSpec) -> MeshState:
        """A new mesh: random passwords, a free port wherever the spec leaves it open."""
        return _extended(spec, None)

    @classmethod
    def create_or_extend(cls, home: Home, spec: MeshSpec) -> MeshState:
        """The saved mesh brought to `spec`, or a new one; saved when it differs.

        Sites and services keep ports and credentials, except where the spec now names a port. New
        sites are added. Sites that the spec no longer names stay as they are.
        """
        home.create()
        with _exclusively(home):
            old = cls.load(home) if home.state.exists() else None
            state = _extended(spec, old)
            if old is None or home.state.read_text() != state.to_text():
                state.save(home)
        for name in state.sites:
            home.create_site(name)
        return state

    @classmethod
    def load(cls, home: Home) -> MeshState:
        """The mesh saved under `home`. Raises `TowpathError` when there is none or it is unreadable."""
        try:
            return cls.model_validate_json(home.state.read_bytes())
        except FileNotFoundError:
            raise TowpathError(
                ErrorCode.FAILED,
                "no mesh here",
                field="home",
                value=str(home.root),
                allowed="a directory where `towpath up` has run",
            ) from None
        except ValidationError as error:
            raise TowpathError.of_validation(error) from error

    def save(self, home: Home) -> None:
        """Write the mesh under `home`, whole or not at all, readable for its owner only."""
        home.create()
        write_private_file(home.state, self.to_text())

    def to_text(self) -> str:
        """What `save` writes."""
        return self.model_dump_json(indent=2)


def reachable(listen: str) -> str:
    """The address to connect to for a server on this machine that listens on `listen`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen, f"[{listen}]" if ":" in listen else listen)


def _extended(spec: MeshSpec, old: MeshState | None) -> MeshState:
    named = {site.name for site in spec.sites}
    stay = [] if old is None else [a.spec for name, a in old.sites.items() if name not in named]
    taken = _explicit_ports(spec) | (_ports(old) if old else set())
    sites = [_with_ports(s, old.sites.get(s.name) if old else None, taken) for s in [*stay, *spec.sites]]
    filled = spec.model_copy(
        update={
            "sites": sites,
            "hub_port": _port(spec.hub_port, old.spec.hub_port if old else 0, spec.listen, taken),
            "redis_port": _port(spec.redis_port, old.spec.redis_port if old else 0, spec.listen, taken),
            "api_port": _port(spec.api_port, old.spec.api_port if old else 0, spec.listen, taken),
            "emulate_links": _kept("emulate_links", spec, old),
            "faults": _kept("faults", spec, old),
            "artefact_root": spec.artefact_root or (old.spec.artefact_root if old else None),
        }
    )
    return _with_brokers(_with_links(_with_credentials(filled, old, taken), taken), taken)


def _with_credentials(filled: MeshSpec, old: MeshState | None, taken: set[int]) -> MeshState:
    accesses = [
        old.sites[s.name].model_copy(update={"spec": s})
        if old and s.name in old.sites
        else SiteAccess.create(s)
        for s in filled.sites
    ]
    return MeshState(
        spec=filled,
        leaf_port=_port(0, old.leaf_port if old else 0, filled.listen, taken),
        coordinator=old.coordinator if old else Credential.random("hub.coordinator"),
        operator=old.operator if old else Credential.random("hub.operator"),
        monitor=old.monitor if old else Credential.random("hub.monitor"),
        injector=old.injector if old else Credential.random("hub.injector"),
        collector=old.collector if old else Credential.random("hub.collector"),
        api=old.api if old else Credential.random("hub.api"),
        api_token=old.api_token if old else random_token(),
        redis_coordinator=old.redis_coordinator if old else Credential.random("coordinator"),
        links=old.links if old else None,
        sites={access.spec.name: access for access in accesses},
    )


def _kept(setting: str, spec: MeshSpec, old: MeshState | None) -> Any:
    """A setting as the spec says; a spec that does not say leaves it as it was."""
    said = spec if old is None or setting in spec.model_fields_set else old.spec
    return getattr(said, setting)


def _with_links(state: MeshState, taken: set[int]) -> MeshState:
    """With ports for each link and a credential for their process, if links are emulated.

    They are kept when links are not emulated any more, so that they are the same when they are again.
    """
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
    links = state.links or Credential.random("hub.links")
    return state.model_copy(update={"sites": sites, "links": links})


def _with_brokers(state: MeshState, taken: set[int]) -> MeshState:
    """With what bridges need, and with what devices use at a broker that was there before."""
    sites = {name: _with_broker(access, taken) for name, access in state.sites.items()}
    return state.model_copy(update={"sites": sites})


def _with_broker(access: SiteAccess, taken: set[int]) -> SiteAccess:
    name, broker = access.spec.name, access.spec.broker
    device = access.device
    if device.user != f"{name}.device":
        device = Credential.random(f"{name}.device")  # The site had somebody else's broker before.
    port = access.broker_port
    if access.is_bridged:
        check_broker(broker)
    if access.is_bridged and broker.host is not None:
        device = Credential(user=broker.user or "", password=broker_password(broker))
        port = broker.port or (8883 if broker.tls else 1883)
    elif access.is_bridged:
        port = _port(broker.port, port, access.spec.listen, taken)
    bridge = access.bridge or (Credential.random(f"{name}.bridge") if access.is_bridged else None)
    return access.model_copy(update={"device": device, "broker_port": port, "bridge": bridge})


def _with_ports(site: SiteSpec, old: SiteAccess | None, taken: set[int]) -> SiteSpec:
    nats_port = _port(site.nats_port, old.spec.nats_port if old else 0, site.listen, taken)
    mqtt_port = _port(site.mqtt_port, old.spec.mqtt_port if old else 0, site.listen, taken)
    return site.model_copy(update={"nats_port": nats_port, "mqtt_port": mqtt_port})


def _port(wanted: int, kept: int, listen: str, taken: set[int]) -> int:
    port = wanted or kept or free_port(taken, address=listen)
    taken.add(port)
    return port


def _ports(state: MeshState) -> set[int]:
    sites = {p for a in state.sites.values() for p in _listeners(a)}
    return sites | {state.leaf_port, state.spec.hub_port, state.spec.redis_port, state.spec.api_port}


def _listeners(access: SiteAccess) -> tuple[int, ...]:
    own_broker = 0 if access.spec.broker.host else access.broker_port
    links = access.link_port, access.link_redis_port
    return access.spec.nats_port, access.spec.mqtt_port, *links, own_broker


def _explicit_ports(spec: MeshSpec) -> set[int]:
    """Ports the spec names. Raises `TowpathError` when two listeners shall have the same one."""
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
def _exclusively(home: Home) -> Iterator[None]:
    with home.state_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
