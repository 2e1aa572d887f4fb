"""A mesh of containers as a compose file: pure, a mesh in, a description out.

The services share one network. Each site has a network of its own with only its container and the emulated
links, so all its traffic passes its link. Written for docker-compose 1.29 as well as for `docker compose` 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.topology import Topology
from towpath.lab.services.links import LINKS
from towpath.lab.topology.secrets import CONTAINER_HOME, digest_name, secret_name
from towpath.mesh.service_table import SERVERS, Service, hub_services
from towpath.mesh.services.agent import AGENT
from towpath.mesh.state import MeshState
from towpath.telemetry.logs import FORMAT_VARIABLE

Description = dict[str, Any]

SERVICES_IMAGE, SITE_IMAGE = "towpath-services", "towpath-site"

SERVICES = "services"
"""Name of the network of all that is no site."""

ALIVE = "/tmp/alive"
"""File that a process touches as long as it works, see `towpath.mesh.liveness`."""

SILENT_MINUTES = 0.25
"""Minutes without a touch after which a container counts as unhealthy."""

HEALTH_EVERY_S, HEALTH_WITHIN_S, HEALTH_ATTEMPTS = 10, 5, 3
"""A look costs a process in the container."""

SERVER_MEMORY_MB, SERVICE_MEMORY_MB = 512, 384
"""At most. They take 30 to 150 when a few sites are quiet."""

SITE_START_S, SERVICE_START_S = 180, 60
"""So long a container may be silent at first."""

SITE_STOP_S, SERVICE_STOP_S = 15, 10

SERVICE_PROCESSES, SITE_PROCESSES = 256, 2048
"""And threads, at most: an engine has hundreds."""

SCRATCH_MB = 512
"""Of /tmp, where the coordinator packs users' code and Spark's JVM unpacks native libraries. What is there
counts as memory of the container."""

USER = 10001
"""Who everything runs as, see `infra/docker/Dockerfile`."""

PID_FILES = f"{CONTAINER_HOME.run}:uid={USER},gid={USER},mode=0700"
"""They go with the container: in the next one the same number is another process."""

PASSED_ON = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", FORMAT_VARIABLE)
"""Variables that `docker compose up` passes on to processes."""

FAULTS_VOLUME = "faults"
"""Volume of the rules of the hub's processes: the injector writes them, and the others report there."""


@dataclass(frozen=True, kw_only=True)
class ComposeSettings:
    """Contents of a compose file beyond the mesh."""

    secrets: str = "./secrets"
    """Directory of the containers' secrets, absolute or as seen from the compose file."""
    artefacts: str | None = None
    """Directory of users' code, as seen from the compose file; null: by the path that the mesh has."""
    tag: str = "local"
    """Of the images."""
    memory_mb: Mapping[str, int] = field(default_factory=dict)
    """Site → memory that all of its processes may take together; others have no limit."""
    spare: frozenset[str] = frozenset()
    """Sites that are started only by name: they have the profile `spare`."""

    @classmethod
    def of(cls, topology: Topology, secrets: str, tag: str) -> ComposeSettings:
        """With the nodes' memory, and what nodes are spare."""
        return cls(
            secrets=secrets,
            tag=tag,
            memory_mb={node.name: node.memory_mb for node in topology.nodes},
            spare=frozenset(node.name for node in topology.nodes if node.spare),
        )


def compose(mesh: MeshState, settings: ComposeSettings) -> Description:
    """The containers of a mesh: servers and services, and one a site."""
    services = [service for service in hub_services() if service.runs(mesh.spec)]
    parts = {
        **{name: _server(name, mesh, settings) for name in SERVERS},
        **{service.name: _service(service, mesh, settings) for service in services},
        **{name: _site(name, mesh, settings) for name in mesh.sites},
    }
    volumes = [*SERVERS, *(service.name for service in services if service.keeps_files), *mesh.sites]
    if mesh.spec.faults.enabled:
        volumes.append(FAULTS_VOLUME)
    return {
        "services": parts,
        "networks": {SERVICES: {}, **{site_network(site): {} for site in mesh.sites}},
        "volumes": {name: {} for name in volumes},
        "secrets": {name: {"file": f"{settings.secrets}/{secret_name(name)}"} for name in parts},
    }


def compose_text(description: Description, head: str = "") -> str:
    """The description as the text of a file, under the comment `head`."""
    body = yaml.dump(description, Dumper=_Plain, sort_keys=False, width=110, default_flow_style=None)
    return head + body


class _Plain(yaml.SafeDumper):
    """Writes no references: each container is complete."""

    def ignore_aliases(self, data: Any) -> bool:
        """See `yaml.SafeDumper`."""
        return True


def site_network(site: str) -> str:
    """The network in which are only a site and the links."""
    return f"site-{site}"


def _server(name: str, mesh: MeshState, settings: ComposeSettings) -> Description:
    """The hub's server, or Redis."""
    secret = f"/run/secrets/{secret_name(name)}"
    port = mesh.spec.hub_port if name == "hub" else mesh.spec.redis_port
    command = {
        "hub": ["nats-server", "--config", secret],
        "redis": ["redis-server", secret],
    }[name]
    return {
        **_part(name, SERVICES_IMAGE, command, settings),
        "volumes": [_volume(name)],
        "networks": [SERVICES],
        **({"ports": [_published(port)]} if name == "hub" else {}),
        **_limits(SERVER_MEMORY_MB, SERVICE_PROCESSES),
        "healthcheck": _health(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", SERVICE_START_S),
        "stop_grace_period": f"{SERVICE_STOP_S}s",
    }


def _service(service: Service, mesh: MeshState, settings: ComposeSettings) -> Description:
    name = service.name
    volumes = [_volume(name)] if service.keeps_files else []
    environment = _environment(name, name, HUB_SCOPE, mesh)
    if mesh.spec.faults.enabled:
        volumes.append(f"{FAULTS_VOLUME}:{CONTAINER_HOME.faults}")
    if service.reads_artefacts and mesh.spec.artefact_root is not None:
        volumes.append(f"{settings.artefacts or mesh.spec.artefact_root}:{CONTAINER_HOME.artefacts}:ro")
        environment["TOWPATH_ARTEFACTS"] = str(CONTAINER_HOME.artefacts)
    description = {
        **_part(name, SERVICES_IMAGE, _command(service), settings),
        "environment": environment,
        "volumes": volumes,
        "networks": [SERVICES],
        **_limits(SERVICE_MEMORY_MB, SERVICE_PROCESSES),
        "healthcheck": _health(_touched(), SERVICE_START_S),
        "stop_grace_period": f"{SERVICE_STOP_S}s",
        "depends_on": [*service.needs(mesh.spec)],
    }
    if service is LINKS:
        description["networks"] = [SERVICES, *(site_network(site) for site in mesh.sites)]
    if service.published and service.address is not None:
        description["ports"] = [_published(service.address(mesh)[1])]
    return description


def _site(name: str, mesh: MeshState, settings: ComposeSettings) -> Description:
    spec = mesh.site(name).spec
    return {
        **_part(name, SITE_IMAGE, [*_command(AGENT), "--site", name], settings),
        "environment": _environment(name, AGENT.process(name), name, mesh),
        "volumes": [_volume(name)],
        "tmpfs": [f"/tmp:exec,mode=1777,size={SCRATCH_MB}m", PID_FILES],
        "networks": [site_network(name)],
        "ports": [_published(spec.nats_port), _published(spec.mqtt_port)],
        **_limits(settings.memory_mb.get(name), SITE_PROCESSES),
        "healthcheck": _health(_touched(), SITE_START_S),
        "stop_grace_period": f"{SITE_STOP_S}s",
        "depends_on": [LINKS.name],
        **({"profiles": ["spare"]} if name in settings.spare else {}),
    }


def _command(service: Service) -> list[str]:
    return ["python", "-m", service.module, "--home", str(CONTAINER_HOME.root)]


def _volume(name: str) -> str:
    return f"{name}:{CONTAINER_HOME.root}"


def _environment(container: str, process: str, scope: str, mesh: MeshState) -> dict[str, str]:
    """Return the variables of a container with a program of Towpath."""
    return {
        "TOWPATH_STATE": f"/run/secrets/{secret_name(container)}",
        "TOWPATH_ALIVE": ALIVE,
        **mesh.process_environment(CONTAINER_HOME, scope, process),
        **{variable: f"${{{variable}:-}}" for variable in PASSED_ON},
    }


def _part(name: str, image: str, command: list[str], settings: ComposeSettings) -> Description:
    """Return what all containers have in common."""
    return {
        "image": f"{image}:{settings.tag}",
        "command": command,
        "secrets": [{"source": name, "target": secret_name(name)}],
        "init": True,
        "read_only": True,
        "env_file": [f"{settings.secrets}/{digest_name(name)}"],
        "tmpfs": [f"/tmp:mode=1777,size={SCRATCH_MB}m"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}},
    }


def _limits(memory_mb: int | None, processes: int) -> Description:
    memory = {} if memory_mb is None else {"mem_limit": f"{memory_mb}m", "memswap_limit": f"{memory_mb}m"}
    return {**memory, "pids_limit": processes}


def _health(command: str, start_s: int) -> Description:
    return {
        "test": ["CMD-SHELL", command],
        "interval": f"{HEALTH_EVERY_S}s",
        "timeout": f"{HEALTH_WITHIN_S}s",
        "retries": HEALTH_ATTEMPTS,
        "start_period": f"{start_s}s",
    }


def _touched() -> str:
    return f"find {ALIVE} -mmin -{SILENT_MINUTES} | grep -q ."


def _published(port: int) -> str:
    """Publish a port on this machine only, under its own number, so that addresses hold everywhere."""
    return f"127.0.0.1:{port}:{port}"
