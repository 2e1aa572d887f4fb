"""A mesh of containers as a compose file: pure, a mesh in, a description out.

The services share one network. Each site has a network of its own, in which there is nobody but its
container and the emulated links: what crosses is what its link lets through. Written for docker-compose 1.29
as well as for `docker compose` 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from towpath.contracts.message import HUB_SCOPE
from towpath.contracts.topology import Topology
from towpath.lab.topology.secrets import CONTAINER_HOME, SERVERS, digest_name, secret_name
from towpath.mesh.state import MeshState
from towpath.mesh.views import services_of
from towpath.telemetry.logs import FORMAT_VARIABLE

Description = dict[str, Any]

SERVICES_IMAGE, SITE_IMAGE = "towpath-services", "towpath-site"

SERVICES = "services"
"""Name of the network of all that is no site."""

MODULES = {"injector": "towpath.lab.injector", "links": "towpath.lab.links"}
"""Services of the laboratory. All others are modules of the product, called as they are."""

ALIVE = "/tmp/alive"
"""File that a process touches as long as it works, see `towpath.mesh.liveness`."""

SILENT_MINUTES = 0.25
"""After so long without a touch a container counts as unhealthy."""

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
"""They go with the container: in the next one the same number is somebody else."""

KEEPS = frozenset({"hub", "redis", "injector", "collector", "links"})
"""What keeps something. Sites do, too; of the other services everything is in Redis."""

PASSED_ON = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", FORMAT_VARIABLE)
"""Variables that processes go by, as they are set where `docker compose up` is said."""

FAULTS_VOLUME = "faults"
"""What rules the hub's processes carry out: the injector writes them, and the others' reports come back."""


@dataclass(frozen=True, kw_only=True)
class ComposeSettings:
    """What a compose file says beside the mesh."""

    secrets: str = "./secrets"
    """Directory of the containers' secrets, absolute or as seen from the compose file."""
    artefacts: str | None = None
    """Directory of users' code, as seen from the compose file; null: by the path that the mesh has."""
    tag: str = "local"
    """Of the images."""
    memory_mb: Mapping[str, int] = field(default_factory=dict)
    """Site → memory that all of its processes may take together; others have no limit."""
    spare: frozenset[str] = frozenset()
    """Sites that are started only when somebody asks for them by name: they have the profile `spare`."""

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
    parts = {
        **{name: _server(name, mesh, settings) for name in SERVERS},
        **{name: _service(name, mesh, settings) for name in services_of(mesh.spec)},
        **{name: _site(name, mesh, settings) for name in mesh.sites},
    }
    volumes = [*(name for name in parts if name in KEEPS or name in mesh.sites)]
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
    """Without references from one place to another: every container stands there whole."""

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
        **_part(name, f"{SERVICES_IMAGE}:{settings.tag}", command, settings, mesh, None),
        "networks": [SERVICES],
        **({"ports": [_published(port)]} if name == "hub" else {}),
        **_limits(SERVER_MEMORY_MB, SERVICE_PROCESSES),
        "healthcheck": _health(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'", SERVICE_START_S),
        "stop_grace_period": f"{SERVICE_STOP_S}s",
    }


def _service(name: str, mesh: MeshState, settings: ComposeSettings) -> Description:
    command = ["python", "-m", MODULES.get(name, f"towpath.{name}"), "--home", str(CONTAINER_HOME.root)]
    description = {
        **_part(name, f"{SERVICES_IMAGE}:{settings.tag}", command, settings, mesh, HUB_SCOPE),
        "networks": [SERVICES],
        **_limits(SERVICE_MEMORY_MB, SERVICE_PROCESSES),
        "healthcheck": _health(_touched(), SERVICE_START_S),
        "stop_grace_period": f"{SERVICE_STOP_S}s",
        "depends_on": ["hub", "redis"] if name in ("coordinator", "links") else ["hub"],
    }
    if mesh.spec.faults.enabled:
        description["volumes"].append(f"{FAULTS_VOLUME}:{CONTAINER_HOME.faults}")
    if name == "links":
        description["networks"] = [SERVICES, *(site_network(site) for site in mesh.sites)]
    if name == "api":
        description["ports"] = [_published(mesh.spec.api_port)]
    if name == "coordinator" and mesh.spec.artefact_root is not None:
        source = settings.artefacts or mesh.spec.artefact_root
        description["volumes"].append(f"{source}:{CONTAINER_HOME.artefacts}:ro")
        description["environment"]["TOWPATH_ARTEFACTS"] = str(CONTAINER_HOME.artefacts)
    return description


def _site(name: str, mesh: MeshState, settings: ComposeSettings) -> Description:
    spec = mesh.site(name).spec
    command = ["python", "-m", "towpath.agent", "--home", str(CONTAINER_HOME.root), "--site", name]
    return {
        **_part(name, f"{SITE_IMAGE}:{settings.tag}", command, settings, mesh, name),
        "tmpfs": [f"/tmp:exec,mode=1777,size={SCRATCH_MB}m", PID_FILES],
        "networks": [site_network(name)],
        "ports": [_published(spec.nats_port), _published(spec.mqtt_port)],
        **_limits(settings.memory_mb.get(name), SITE_PROCESSES),
        "healthcheck": _health(_touched(), SITE_START_S),
        "stop_grace_period": f"{SITE_STOP_S}s",
        "depends_on": ["links"],
        **({"profiles": ["spare"]} if name in settings.spare else {}),
    }


def _part(
    name: str, image: str, command: list[str], settings: ComposeSettings, mesh: MeshState, scope: str | None
) -> Description:
    """What all containers have in common; `scope` is of those that are no servers."""
    environment: dict[str, str] = {}
    if scope is not None:
        environment |= {"TOWPATH_STATE": f"/run/secrets/{secret_name(name)}", "TOWPATH_ALIVE": ALIVE}
        process = name if scope == HUB_SCOPE else f"{name}-agent"
        environment |= mesh.process_environment(CONTAINER_HOME, scope, process)
        environment |= {variable: f"${{{variable}:-}}" for variable in PASSED_ON}
    volumes = [f"{name}:{CONTAINER_HOME.root}"] if name in KEEPS or scope == name else []
    return {
        "image": image,
        "command": command,
        **({"environment": environment} if environment else {}),
        "secrets": [{"source": name, "target": secret_name(name)}],
        "volumes": volumes,
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
    """On this machine only, under the same number: what the mesh says of itself is true on both sides."""
    return f"127.0.0.1:{port}:{port}"
