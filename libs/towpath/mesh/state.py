"""The saved mesh: ports and credentials of sites and services, given once and kept."""

from __future__ import annotations

import ssl

from pydantic import Field, ValidationError

from towpath.atomic_write import write_private_file
from towpath.contracts.credential import Credential
from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.joining import Invitation
from towpath.contracts.message import HUB_SCOPE, SiteName, is_unused
from towpath.contracts.site import BrokerKind, HubNode, MeshSpec, SiteSpec
from towpath.mesh.credentials import Logins, random_token
from towpath.mesh.home import Home
from towpath.mesh.tls_files import TlsFiles, client_context


class SiteAccess(Logins):
    """A site with its ports filled in, and the credentials of its processes and devices."""

    spec: SiteSpec
    device: Credential
    """User that all devices share, unless the site's settings switch it off."""
    commands: Credential | None = None
    """User in the place of `device` for Towpath's own commands; null while devices share theirs."""
    leaf: Credential
    """User of the site's server at the hub."""
    redis: Credential
    link_port: int = 0
    """Port at which the site's server finds its emulated link to the hub; 0 until links are emulated."""
    link_redis_port: int = 0
    """Port at which the site's agent finds Redis through the same link; 0 until links are emulated."""
    broker_port: int = 0
    """Port of the broker that devices use beside the site's own server; 0 until there is one."""
    gateway: Credential | None = None
    """User of gateways at the site's broker, and of those who command them; null in a mesh of an earlier
    version until its next `up`."""
    operator: Credential | None = None
    """User of people at the site's own server; null in a mesh of an earlier version until its next `up`."""
    is_elsewhere: bool = False
    """It runs on another machine, which has all its keys but those of `leaf` and `redis`."""
    invitation: Invitation | None = None
    """With which that machine may join. On that machine: the one for which its keys were made."""
    is_renewing: bool = False
    """It has joined, and its invitation takes other keys."""
    hub_host: str = ""
    """Address of the hub's machine in its last bundle."""
    bridge_session: str | None = None
    """Name of the bridge's session at its broker. Null: a digest of its password, never replaced so far."""
    bridge: Credential | None = None
    """Credential of the agent's bridge at the site's server, and at a broker that the agent runs; null until
    devices use another broker than the site's own server."""
    tls: TlsFiles | None = None
    """Certificate that its server shows the hub, and its agent Redis; null: the mesh encrypts nothing."""
    mqtt_tls: TlsFiles | None = None
    """Certificate that the brokers here show devices; null: the mesh encrypts nothing."""

    @property
    def has_joined(self) -> bool:
        """It has keys at the hub."""
        return bool(self.leaf.password)

    @property
    def client(self) -> Credential:
        """User of Towpath's own commands at the broker for devices: the devices', if they share one."""
        return self.device if self.spec.broker.shared_device or self.commands is None else self.commands

    @property
    def nats_url(self) -> str:
        """Address of the site's server, as this machine reaches it. Raises `TowpathError` (not allowed)."""
        self.check_here()
        return f"nats://{reachable(self.nats_listen)}:{self.spec.nats_port}"

    @property
    def nats_listen(self) -> str:
        """Address at which the site's server takes NATS clients. In a mesh that encrypts it is this machine's
        alone: the readers of Spark's workers cannot be told of an authority."""
        return "127.0.0.1" if self.tls else self.spec.listen

    @property
    def mqtt_host(self) -> str:
        """Host of the broker for devices, as this machine reaches it. Raises `TowpathError` (not allowed)."""
        self.check_here()
        return self.spec.broker.host or reachable(self.spec.listen)

    @property
    def mqtt_port(self) -> int:
        """Port of the broker for devices."""
        return self.broker_port if self.is_bridged else self.spec.mqtt_port

    @property
    def mqtt_is_encrypted(self) -> bool:
        """The broker for devices speaks TLS."""
        broker = self.spec.broker
        return broker.tls if self.is_bridged and broker.host is not None else self.mqtt_tls is not None

    @property
    def mqtt_authority(self) -> str | None:
        """File with the authority of the broker for devices; None: the system's."""
        broker = self.spec.broker
        if self.is_bridged and broker.host is not None:
            return broker.ca_file
        return self.mqtt_tls.ca_file if self.mqtt_tls else None

    @property
    def is_bridged(self) -> bool:
        """Devices use another broker than the site's own server."""
        return self.spec.broker.kind is not BrokerKind.NATS

    def check_here(self) -> None:
        """Raise `TowpathError` (not allowed) if another machine runs the site."""
        if self.is_elsewhere:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the site runs on another machine: use this command there",
                field="site",
                value=self.spec.name,
            )


class MeshState(Logins):
    """A mesh with its ports filled in, and all its credentials."""

    spec: MeshSpec
    leaf_port: int
    """Port at which the hub takes the sites' servers."""
    route_port: int = 0
    """Port at which the hub's first server takes the others; 0: it has one."""
    further_nodes: list[HubNode] = []
    """Servers of the hub beside its first."""
    routes: Credential | None = None
    """User of the hub's servers at each other; null: it has one."""
    joined: SiteName | None = None
    """The site that this machine runs, of a mesh whose hub is elsewhere. Null: the hub is here."""
    spare: int | None = Field(default=None, exclude_if=is_unused)
    """Number of the coordinator that this machine runs, and no other service. Null: the other services are
    here, or a site that joined."""
    renewed: SiteAccess | None = None
    """That site with new keys, until the hub has taken them."""
    operator: Credential
    """User of people and the command line at the hub."""
    supervisor: Credential | None = None
    """User of the supervisor at the hub, to let sites join; null in a mesh of an earlier version until its
    next `up`."""
    api_token: str = Field(default_factory=random_token)
    """Token that clients of the REST interface must show."""
    redis_coordinator: Credential
    sites: dict[str, SiteAccess]
    tls: TlsFiles | None = None
    """Certificate of the hub's server and of the door of Redis; null: nothing is encrypted, or the hub is
    elsewhere."""
    api_tls: TlsFiles | None = None
    """Certificate of the REST interface; null: it is plain."""
    hub_names: list[str] = []
    """Addresses of the hub's machine in bundles."""
    redis_plain_port: int = 0
    """Port of Redis itself on 127.0.0.1 while its own port is encrypted; 0 until then."""

    @property
    def has_services(self) -> bool:
        """True if the services of the mesh are on this machine: it is neither a site's nor a spare's."""
        return self.joined is None and self.spare is None

    @property
    def hub_nodes(self) -> list[HubNode]:
        """The servers of the hub that Towpath runs."""
        if self.spec.hub.is_elsewhere:
            return []
        first = HubNode(
            name=HUB_SCOPE, port=self.spec.hub_port, leaf_port=self.leaf_port, route_port=self.route_port
        )
        return [first, *self.further_nodes]

    @property
    def hub_url(self) -> str:
        """Addresses of the hub's servers, as services reach them, separated by commas."""
        return ",".join(self.spec.hub.urls or [self.node_url(node) for node in self.hub_nodes])

    def node_url(self, node: HubNode) -> str:
        """Return the address of one server of the hub, as services reach it."""
        scheme = "tls" if self.authority else "nats"
        return f"{scheme}://{self.hub_host}:{node.port}"

    @property
    def authority(self) -> str | None:
        """File with the certificate of the mesh's authority; None: it encrypts nothing."""
        known = self.tls or (self.sites[self.joined].tls if self.joined in self.sites else None)
        return known.ca_file if known else None

    def hub_tls(self) -> ssl.SSLContext | None:
        """Return with what clients check the hub; None: it is plain."""
        hub = self.spec.hub
        if hub.is_elsewhere:
            return client_context(hub.ca_file) if is_encrypted(hub.urls) else None
        return client_context(self.authority) if self.authority else None

    @property
    def hub_host(self) -> str:
        """Host of the hub's server."""
        return self.spec.addresses.hub or reachable(self.spec.listen)

    @property
    def api_url(self) -> str:
        """Address of the REST interface, as this machine reaches it."""
        scheme = "https" if self.api_tls else "http"
        return f"{scheme}://{reachable(self.spec.listen)}:{self.spec.api_port}"

    def api_check(self) -> ssl.SSLContext | bool:
        """Return how clients check the REST interface, as aiohttp takes it."""
        return client_context(self.api_tls.ca_file) if self.api_tls else True

    @property
    def redis_host(self) -> str:
        """Host of Redis itself, as services beside the hub reach it."""
        return "127.0.0.1" if self.tls else self.redis_entry[0]

    @property
    def redis_port(self) -> int:
        """Port of Redis itself."""
        return self.redis_plain_port if self.tls else self.spec.redis_port

    @property
    def redis_entry(self) -> tuple[str, int]:
        """Host and port at which sites reach Redis: encrypted in a mesh that encrypts."""
        return self.spec.addresses.redis or reachable(self.spec.listen), self.spec.redis_port

    @property
    def links_host(self) -> str:
        """Host of the emulated links."""
        return self.spec.addresses.links or reachable(self.spec.listen)

    @property
    def sites_here(self) -> list[str]:
        """The sites that this machine runs."""
        return [name for name, access in self.sites.items() if not access.is_elsewhere]

    def process_environment(self, home: Home, scope: str, process: str) -> dict[str, str]:
        """Return variables that a process of this mesh, and those it starts, have beside the usual ones."""
        return home.fault_environment(scope, process) if self.spec.faults.enabled else {}

    def leaf_remotes(self, access: SiteAccess) -> list[tuple[str, int]]:
        """Return hosts and ports to one of which a site's server connects: its emulated link, or the hub."""
        if self.spec.emulate_links:
            return [(self.links_host, access.link_port)]
        return self.hub_leaf_addresses

    @property
    def hub_leaf_addresses(self) -> list[tuple[str, int]]:
        """Hosts and ports where the hub takes the sites' servers."""
        told = (url.partition("://")[2].rpartition(":") for url in self.spec.hub.leaf_urls)
        named = [(host, int(port)) for host, _, port in told]
        return named or [(self.hub_host, node.leaf_port) for node in self.hub_nodes]

    def redis_remote(self, access: SiteAccess) -> tuple[str, int]:
        """Return host and port of Redis for a site's agent: its emulated link, or where sites reach Redis."""
        if self.spec.emulate_links:
            return self.links_host, access.link_redis_port
        return self.redis_entry

    def site(self, name: str) -> SiteAccess:
        """Return one site. Raises `TowpathError` (unknown site)."""
        try:
            return self.sites[name]
        except KeyError:
            raise TowpathError.unknown("site", name, sorted(self.sites)) from None

    @classmethod
    def load(cls, home: Home) -> MeshState:
        """Return the mesh saved under `home`. Raises `TowpathError` when there is none or it is
        unreadable."""
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
        """Return what `save` writes."""
        return self.model_dump_json(indent=2)


def is_encrypted(urls: list[str]) -> bool:
    """Return True if connections to these addresses are encrypted."""
    return any(url.startswith("tls://") for url in urls)


def reachable(listen: str) -> str:
    """Return the address to connect to for a server on this machine that listens on `listen`."""
    return {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(listen, f"[{listen}]" if ":" in listen else listen)
