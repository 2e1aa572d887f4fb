"""The table of services: one description for each process of Towpath that runs in a mesh.

A service registers itself when the module of its description is loaded. The supervisor, the configurations of
the servers, the saved mesh, and the compose file all follow this table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from towpath.contracts.events import SecurityRefused
from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.site import MeshSpec
from towpath.contracts.traces import Span
from towpath.descriptors import Descriptors
from towpath.mesh.names import hub_processes
from towpath.mesh.permissions import Permissions, Rights, inbox

if TYPE_CHECKING:
    from towpath.mesh.state import MeshState

SERVERS = (HUB_SCOPE, "redis")
"""Processes beside the services that every mesh has."""

REDIS_DOOR = "redis-door"
"""The process that encrypts connections to Redis, in a mesh that encrypts."""

SITE_SERVER = "nats"
"""The process beside the services that every site has."""

STOP_S = 2.0
"""Services keep everything on disk, and can end at any moment. With an agent's time this stays within the ten
seconds in which a mesh must be down."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A program of Towpath that runs in a mesh. `docs/extending/service.md` says how to add one."""

    name: str
    """Name of the service, its process, and its commands: `towpath.v1.command.<name>.…`."""
    summary: str
    """For people: no full stop, no capital."""
    module: str
    """The program: `python -m <module> --home <directory>`, at a site also `--site <site>`."""
    rights: Callable[[str], Rights]
    """Subjects of its own beside those that every service has, by its scope: `hub` or a site."""
    one_per_site: bool = False
    """Each site has one. Otherwise the mesh has one, beside the hub."""
    started_by_agent: bool = False
    """The site's agent starts it. Otherwise the supervisor does."""
    runs: Callable[[MeshSpec], bool] = lambda spec: True
    """Tells if a mesh with these settings has the service."""
    count: Callable[[MeshSpec], int] = lambda spec: 1
    """Processes of it in such a mesh. They have the same user, and must agree which of them acts."""
    after: tuple[str, ...] = (HUB_SCOPE,)
    """Servers and services that must be ready before it starts, of those that the mesh has."""
    address: Callable[[MeshState], tuple[str, int]] | None = None
    """Host and port: it is ready as soon as it listens there. None: as soon as it runs."""
    stop_s: float = STOP_S
    """Seconds between SIGTERM and SIGKILL."""
    settings: Callable[[MeshState, str], Sequence[str]] = lambda state, scope: ()
    """Settings that it reads when it starts, by its scope. When they change, it is restarted."""
    commanded_by_clients: bool = False
    """People and the command line may command it."""
    secrets: frozenset[str] = frozenset()
    """Fields of the saved mesh that it needs beside its own credential, and that others must not see."""
    reads_artefacts: bool = False
    """It reads the directory of users' code."""
    keeps_files: bool = False
    """It keeps files in the mesh's directory. In a container it needs a volume."""
    published: bool = False
    """Clients connect to its address. A container publishes the port."""

    def process(self, scope: str, number: int = 1) -> str:
        """Return the name of its process: its own name, or `<site>-<name>`. Further ones have a number."""
        name = f"{scope}-{self.name}" if self.one_per_site else self.name
        return name if number == 1 else f"{name}-{number}"

    def processes(self, spec: MeshSpec, scope: str = HUB_SCOPE) -> list[str]:
        """Return the names of all its processes in a mesh with these settings."""
        return [self.process(scope, number) for number in range(1, self.count(spec) + 1)]

    def user(self, scope: str) -> str:
        """Return its user at the hub's or the site's server."""
        return f"{scope}.{self.name}"

    def permissions(self, scope: str) -> Permissions:
        """Return the permissions of its user: its rights, its inbox, its spans, and what it refuses."""
        rights = self.rights(scope)
        return replace(
            rights,
            publish=[*rights.publish, Span.wildcard(), SecurityRefused.wildcard()],
            subscribe=[inbox(self.user(scope)), *rights.subscribe],
        ).permissions()

    def needs(self, spec: MeshSpec) -> tuple[str, ...]:
        """Return what it comes `after`, as far as a mesh with these settings has it.

        A hub of several servers is there without any one of them, so no service waits for the first.
        """
        there = {*servers_of(spec), *(service.name for service in services().values() if service.runs(spec))}
        if spec.hub.nodes > 1:
            there.remove(HUB_SCOPE)
        return tuple(name for name in self.after if name in there)


SERVICES = Descriptors[Service]("service", ["towpath.mesh.services"], optional=["towpath.lab.services"])


def register(service: Service) -> Service:
    """Make a service known. Raises `ValueError` when another one has its name."""
    SERVICES.register(service.name, service)
    return service


def services() -> Mapping[str, Service]:
    """Return all services by name, in the order of their names."""
    return SERVICES.by_name()


def hub_services() -> list[Service]:
    """Return the services of which a mesh has one."""
    return [service for service in services().values() if not service.one_per_site]


def site_services() -> list[Service]:
    """Return the services of which each site has one."""
    return [service for service in services().values() if service.one_per_site]


def processes_of(spec: MeshSpec, sites: Iterable[str]) -> list[str]:
    """Return the names of the processes that a mesh with these settings and sites may have.

    The supervisor is not among them. An engine runs only where it is needed.
    """
    running = [service for service in services().values() if service.runs(spec)]
    shared = [name for service in running if not service.one_per_site for name in service.processes(spec)]
    at_sites = [service for service in running if service.one_per_site]
    parts = [
        name
        for site in sites
        for name in (f"{site}-{SITE_SERVER}", *(service.process(site) for service in at_sites))
    ]
    doors = [REDIS_DOOR] if spec.is_encrypted else []
    return [*servers_of(spec), *doors, *shared, *parts]


def servers_of(spec: MeshSpec) -> list[str]:
    """Return the names of the processes beside the services that a mesh with these settings has."""
    hub, redis = SERVERS
    return [redis] if spec.hub.is_elsewhere else [hub, redis, *hub_processes(spec.hub.nodes)[1:]]
