"""Settings of sites and meshes, and the heartbeat of a site."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from towpath.contracts.autopilot import AutopilotSpec
from towpath.contracts.job import ContainerLimits, JobStatus
from towpath.contracts.message import ROOT, Message, Model, SiteName, now, unreserved
from towpath.contracts.storage import StorageSpec
from towpath.contracts.tls import TlsSpec, is_loopback


class Durability(StrEnum):
    """When a stored event is on the disk.

    Either way an event is acknowledged when the site has stored it. `fast` flushes every two minutes: it
    survives the death of any process, not a power cut. `power-safe` flushes each event before it is
    acknowledged, and survives both; it is about twenty times slower.
    """

    FAST = "fast"
    POWER_SAFE = "power-safe"


class Retention(Model):
    """Limits of a site's streams. The limit that is reached first counts."""

    max_bytes: int = Field(default=4 * 1024**3, gt=0)
    """Of each stream."""
    max_age_s: float = Field(default=7 * 24 * 3600.0, ge=0)
    """Seconds; 0 keeps events until `max_bytes` is reached. It holds for results that wait for subscribers'
    sessions, too."""
    total_bytes: int | None = Field(default=None, gt=0)
    """Room of all streams together, results for sessions included. If they would take more, each gets a share
    in place of `max_bytes`. null: four fifths of the disk."""


class StorageState(StrEnum):
    """Room on the disk of a site."""

    OK = "ok"
    FILLING = "filling"
    """More than 80 % are taken."""
    FULL = "full"
    """More than 95 % are taken: the site acknowledges no events of devices until there is room again."""


class Observation(Model):
    """Measurements of a site, and the time that it keeps them."""

    enabled: bool = True
    """False: it takes no samples, and traces no events. Commands are traced all the same."""
    max_bytes: int = Field(default=256 * 1024**2, ge=1024**2)
    """Room for samples. The single ones go first, then what is summed up by the minute."""
    max_age_s: float = Field(default=7 * 24 * 3600.0, gt=0)
    """Seconds."""
    event_traces_every_s: float | None = Field(default=10.0, gt=0)
    """Seconds between two events of a job that are traced; null: none is."""
    metrics_every_s: float = Field(default=5.0, ge=0, le=3600)
    """Seconds between two events that the site publishes of each of its entities to its topic `site/metrics`;
    0: it publishes none."""


SMALLEST_HEAP_MB = 480
"""Spark does not start on less than 450 MiB that its JVM can use: a little less than the heap."""


def _heap(text: str) -> str:
    if int(text[:-1]) * (1024 if text.endswith("g") else 1) < SMALLEST_HEAP_MB:
        raise ValueError(f"Spark does not start with less than {SMALLEST_HEAP_MB}m")
    return text


Heap = Annotated[str, Field(pattern=r"^[0-9]+[mg]$"), AfterValidator(_heap)]
"""Size of a JVM's heap, as Spark writes it: `768m`, `1g`; at least `480m`."""


class EngineKind(StrEnum):
    """Program that runs the jobs of a site."""

    SPARK = "spark"
    """Apache Spark, with threads of one process or a standalone cluster."""


class EngineStart(StrEnum):
    """When the engine of a site runs."""

    WITH_JOBS = "with-jobs"
    """From the first job on, until it has had none for five minutes: a site needs little without it."""
    ALWAYS = "always"
    """As long as the site does: its first job starts some seconds earlier."""


class Compilation(StrEnum):
    """Effort that an engine puts into compiling its code."""

    QUICK = "quick"
    """Only the first tier of Java's compiler, and generated code only for micro-batches of 2,000 events."""
    THOROUGH = "thorough"
    """Both tiers, and generated code for all micro-batches."""


class EngineSpec(Model):
    """The engine of a site. Everything but `kind` and `start` is for Spark."""

    kind: EngineKind = EngineKind.SPARK
    start: EngineStart = EngineStart.WITH_JOBS
    spark_master: str = "local[2]"
    """`local[N]`: N threads of the engine's process. `spark://host:port`: a standalone cluster, which needs
    the site's directory and the Python environment at the same paths on all its machines."""
    memory: Heap = "768m"
    """Heap of the driver, as Spark writes it, at least `480m`."""
    state_memory_mb: int = Field(default=128, ge=16)
    """Upper bound of what all RocksDB state stores of the site hold in memory."""
    compilation: Compilation = Compilation.QUICK
    """`thorough` is for sites that read ten thousand events a second or more for minutes. Their micro-batches
    then take less CPU time, but engines take about twice as much to start. At lower
    rates it gained nothing within the minutes that were measured."""
    java_options: str = ""
    """Further options of the engine's JVM. They come after its own, so they win. `compilation` chooses the
    compiler tiers."""
    cluster_cores: int = Field(default=2, ge=1)
    """Cores that the site takes of a cluster; the rest is left to others."""
    executor_memory: Heap = "1g"
    """Heap of each executor on a cluster, at least `480m`."""
    driver_host: str = "127.0.0.1"
    """Address of this machine at which the executors of a cluster reach the engine."""
    confined: bool = True
    """The engine, and code of jobs in it, can open only files that it needs, where the kernel has Landlock
    (Linux 5.13). Executors on a cluster are never confined."""
    reads: list[str] = []
    """Directories and files that code of jobs may read beside its own, such as models and tables."""

    @property
    def cores(self) -> int | None:
        """Tasks at a time: N of `local[N]`, or the share of a cluster. None: all cores of the machine."""
        if not self.spark_master.startswith("local"):
            return self.cluster_cores
        found = re.fullmatch(r"local\[(\d+)\]", self.spark_master)
        if found:
            return int(found.group(1))
        return None if self.spark_master == "local[*]" else 1


class BrokerKind(StrEnum):
    """Where the devices of a site publish, and where its results appear."""

    NATS = "nats"
    """At the MQTT listener of the site's own server."""
    MOSQUITTO = "mosquitto"
    """At a Mosquitto, or any other broker of MQTT 3.1.1 or 5, that the agent bridges to the site's server."""


class BrokerSpec(Model):
    """The broker of a site. Only `kind` and `shared_device` matter where it is `nats`."""

    kind: BrokerKind = BrokerKind.NATS
    host: str | None = None
    """Address of a broker that runs already; null: the agent runs a Mosquitto of its own."""
    port: int = Field(default=0, ge=0, le=65535)
    """0: 1883, or 8883 with TLS; for a Mosquitto of the agent's own, a free port that it keeps."""
    version: Literal["3.1.1", "5"] = "5"
    """Of MQTT."""
    user: str | None = None
    password_file: str | None = None
    """File with the password for `user`."""
    tls: bool = False
    ca_file: str | None = None
    """Certificates of authorities to trust, PEM; null: the system's."""
    certificate_file: str | None = None
    """The bridge's own certificate, PEM, where the broker asks for one."""
    key_file: str | None = None
    subscribe: list[str] = ["site/#"]
    """Topic filters of what devices send."""
    shared_device: bool = True
    """All devices may log in as one user, which `towpath access` shows. False: only as users of
    `towpath device add`. A broker that runs already has users of its own."""


class Capacity(Model):
    """Capacity of a site for jobs that say what they need; null: no limit."""

    cores: float | None = Field(default=None, gt=0)
    memory_mb: int | None = Field(default=None, gt=0)


class PowerSpec(Model):
    """Power that a site takes, linear in the use of its cores."""

    idle_w: float = Field(default=0.0, ge=0)
    active_w: float = Field(default=0.0, ge=0)
    """With all cores busy."""
    battery: bool = False
    """It runs on a battery."""
    charge_file: str | None = None
    """File with the charge of the battery in percent, such as `/sys/class/power_supply/BAT0/capacity`; null:
    as the machine's system tells."""


class SiteLink(Model):
    """The link of a site to the hub and to other sites."""

    price_per_gb: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Price of each gigabyte (of 10^9 bytes) that the site sends or receives, in any currency that all sites
    of the mesh use. What goes from one site to another costs what both links cost."""


class SiteRuntime(StrEnum):
    """Ways in which the agent runs the site's server, broker and engine."""

    PROCESS = "process"
    """As processes beside itself."""
    DOCKER = "docker"
    """Each in a container of its own, which shares the agent's network and the mesh's directory."""


class ContainerSpec(Model):
    """Runtime of a site's parts. Only `runtime` matters where it is `process`."""

    runtime: SiteRuntime = SiteRuntime.PROCESS
    image: str = Field(default="towpath-site:local", min_length=1)
    """With Towpath of the agent's version, its servers, Java and PySpark."""
    images: list[str] | None = None
    """Images that jobs may name, written as they name them, such as `name@sha256:…`; null: any."""
    image_archive: str | None = None
    """File made by `docker save` from which a missing image is loaded, by absolute path on the agent's
    machine; null: it is asked of its registry."""
    docker_host: str | None = Field(default=None, pattern=r"^(unix|tcp|npipe|ssh)://.+$")
    """Where the Docker daemon of the agent's machine listens; null: as the environment variable DOCKER_HOST
    says, else at its usual socket."""
    engine: ContainerLimits = ContainerLimits()
    """Of the engine: `engine.memory`, `engine.state_memory_mb` and some 400 MB for Python have to fit."""
    server: ContainerLimits = ContainerLimits()
    """Of the site's server, and of a Mosquitto beside it."""

    @property
    def is_docker(self) -> bool:
        """True if the parts of the site are containers."""
        return self.runtime is SiteRuntime.DOCKER


class SiteSpec(Model):
    """A place with a broker, an engine and an agent."""

    name: SiteName
    durability: Durability = Durability.FAST
    retention: Retention = Retention()
    engine: EngineSpec = EngineSpec()
    observation: Observation = Observation()
    broker: BrokerSpec = BrokerSpec()
    capacity: Capacity = Capacity()
    power: PowerSpec = PowerSpec()
    link: SiteLink = SiteLink()
    container: ContainerSpec = ContainerSpec()
    listen: str = "127.0.0.1"
    """Address that broker and MQTT listener bind to."""
    nats_port: int = Field(default=0, ge=0, le=65535)
    """0 takes a free port and keeps it."""
    mqtt_port: int = Field(default=0, ge=0, le=65535)

    @field_validator("name")
    @classmethod
    def _not_reserved(cls, name: str) -> str:
        return unreserved(name, "site")


class Addresses(Model):
    """Where the parts of a mesh find each other; null: on the machine they all run on."""

    hub: str | None = None
    """Host of the hub's server, as services reach it, and sites whose links are not emulated."""
    redis: str | None = None
    """Host of Redis, as services reach it, and sites whose links are not emulated."""
    links: str | None = None
    """Host of the emulated links, as sites reach it."""


class FaultSettings(Model):
    """Faults on purpose: see `towpath faults`."""

    enabled: bool = False
    """Let rules be loaded that hold up, change or break what the mesh does. Without it no process looks for
    rules, and loading one is refused. A mesh that exists keeps what it has when this is left out."""


class FailoverSettings(Model):
    """Failover without being told to."""

    after_s: float | None = Field(default=None, ge=10)
    """Seconds of silence after which a site counts as lost. Null: someone says so, by `towpath failover`. A
    site that is only cut off works on meanwhile: give links time to come back."""


class HubSpec(Model):
    """The hub of a mesh."""

    nodes: Literal[1, 3] = 1
    """Servers of the hub. Three form a cluster: each keeps all that the hub stores, and it goes on while one
    of them is down. A mesh that exists cannot change the number, and keeps it when this is left out."""
    urls: list[Annotated[str, Field(pattern=r"^(nats|tls)://[^/@,:]+:[0-9]+$")]] = []
    """Where a NATS deployment takes clients that is to be the hub: `nats://host:port`, or `tls://host:port`.
    None: Towpath runs the hub."""
    leaf_urls: list[Annotated[str, Field(pattern=r"^(nats-leaf|tls)://[^/@,:]+:[0-9]+$")]] = []
    """Where it takes leaf nodes: `nats-leaf://host:port`, or `tls://host:port`."""
    ca_file: str | None = None
    """With which `tls://` addresses are checked, PEM; null: the system's authorities."""
    compression: Literal["auto", "off"] = Field(default="auto", exclude_if=lambda chosen: chosen == "auto")
    """Compression of links to other machines. `auto`: where a round trip takes 10 ms and more. Each link may
    then take some megabytes of the hub's memory, compressed or not."""

    @property
    def is_elsewhere(self) -> bool:
        """True if Towpath does not run it."""
        return bool(self.urls)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.urls) != bool(self.leaf_urls):
            raise ValueError("urls and leaf_urls need each other")
        if self.urls and self.nodes > 1:
            raise ValueError("nodes are for a hub that Towpath runs, urls for another one")
        if self.urls and self.compression != "auto":
            raise ValueError("compression is for a hub that Towpath runs, urls for another one")
        return self


class HubNode(Model):
    """One server of a hub."""

    name: str
    """Name of the server, and of its process."""
    port: int
    """Where it takes clients."""
    leaf_port: int
    """Where it takes the sites' servers."""
    route_port: int = 0
    """Where it takes the hub's other servers; 0: there are none."""


MOST_COORDINATORS = 3
"""Beside the mesh's other services. Those on machines of their own have higher numbers."""


class MeshSpec(Model):
    """Everything `towpath up` starts: the content of `towpath.toml`."""

    sites: list[SiteSpec] = Field(min_length=1)
    hub_port: int = Field(default=0, ge=0, le=65535)
    redis_port: int = Field(default=0, ge=0, le=65535)
    api_port: int = Field(default=0, ge=0, le=65535)
    """Where the REST interface listens."""
    listen: str = "127.0.0.1"
    addresses: Addresses = Addresses()
    hub: HubSpec = HubSpec()
    coordinators: int = Field(default=1, ge=1, le=MOST_COORDINATORS, exclude_if=lambda number: number == 1)
    """Processes of the coordinator. One acts; the others are spares, and take over when it is silent."""
    artefact_root: str | None = None
    """Directory that jobs' user code must lie in; null: `artefacts` in the mesh's own directory. A mesh that
    exists keeps what it has when this is left out."""
    emulate_links: bool = False
    """Lead the links between sites and hub through a process that can delay, throttle and cut them. A mesh
    that exists keeps what it has when this is left out."""
    faults: FaultSettings = FaultSettings()
    autopilot: AutopilotSpec = AutopilotSpec()
    failover: FailoverSettings = FailoverSettings()
    storage: StorageSpec = StorageSpec()
    tls: TlsSpec = TlsSpec()

    @property
    def is_exposed(self) -> bool:
        """True if other machines reach one of its listeners."""
        return not all(is_loopback(address) for address in (self.listen, *(s.listen for s in self.sites)))

    @property
    def is_encrypted(self) -> bool:
        """True if its connections are encrypted."""
        if self.tls.enabled is None:
            return self.is_exposed and not self.tls.allow_plain
        return self.tls.enabled

    @field_validator("sites")
    @classmethod
    def _unique(cls, sites: list[SiteSpec]) -> list[SiteSpec]:
        names = [site.name for site in sites]
        if len(set(names)) < len(names):
            raise ValueError("two sites have the same name")
        return sites


class ProcessStatus(Model):
    """One process of a site or service."""

    name: str
    """`nats`, `engine`, `agent`, …"""
    pid: int | None
    running: bool
    restarts: int = 0
    memory_mb: float = 0.0
    """Resident memory of the process and its children, or what its container uses."""
    error: str | None = None
    """The reason why it ended the last time, or did not start; null if neither is known."""


class SiteState(StrEnum):
    """State of a site, as the coordinator sees it."""

    UP = "up"
    STARTING = "starting"
    """The agent answers, the engine does not yet."""
    DOWN = "down"
    """No heartbeat within the last seconds."""


class Capability(StrEnum):
    """Something that agents of some versions can do, and those of others cannot.

    A coordinator asks no site for what its agent does not name. So a mesh may have sites of two versions.
    """

    STANDBY = "standby"
    """To keep a copy of a job's state, and to take the job over."""
    RESTART = "restart"
    """To restart with its server and engine when it is asked to."""
    OUTPUT_COPY = "output-copy"
    """To keep a copy of a job's output, to let it go on there, and to read one that goes on elsewhere."""


BEFORE_CAPABILITIES: list[str] = [Capability.STANDBY]
"""Capabilities of an agent that names none: it is of the last version before agents did."""


class SiteStatus(Message):
    """The heartbeat of a site, sent every second by its agent. Not kept."""

    subject: ClassVar[str] = f"{ROOT}.heartbeat.{{site}}"
    example: ClassVar[dict[str, Any]] = {
        "site": "jfk",
        "state": "up",
        "at": "2026-01-01T00:00:00Z",
        "nats_url": "nats://127.0.0.1:4222",
        "mqtt_host": "127.0.0.1",
        "mqtt_port": 1883,
        "processes": [{"name": "nats", "pid": 4711, "running": True, "restarts": 0, "memory_mb": 31.5}],
        "jobs": [],
        "version": "0.1.0",
        "capabilities": ["standby", "restart"],
        "begun_at": "2026-01-01T00:00:00Z",
    }

    site: SiteName
    state: SiteState
    at: datetime = Field(default_factory=now)
    nats_url: str
    mqtt_host: str
    mqtt_port: int
    processes: list[ProcessStatus] = []
    jobs: list[JobStatus] = []
    error: str | None = None
    """Why the site is not up, or does not work fully, when it knows."""
    version: str = ""
    """Version of Towpath that its agent runs. Empty: a version that does not say so."""
    capabilities: list[str] = BEFORE_CAPABILITIES
    """Names of what its agent can do, and one of another version perhaps not: see `Capability`."""
    begun_at: datetime | None = None
    """When its agent began, by its clock. It tells one agent from the next. Null: as `version`."""
