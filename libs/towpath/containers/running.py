"""One container at a time: create, start, inspect, stop and remove it. Everything here blocks."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.containers.daemon import daemon
from towpath.contracts.job import ContainerLimits

BILLION = 10**9
"""Units of the daemon per processor."""

MEGABYTE = 1024**2
"""Bytes of `m` in Docker and Java. Compose files use it, too, so a number means the same size everywhere."""


DEFAULT_SHARES, NICER = 1024, 1.25
"""The daemon's units of a container's share of busy processors, and what a level of niceness divides them by:
the same as the kernel does for processes."""


def limiting(limits: ContainerLimits) -> dict[str, Any]:
    """Return the options of a new container. It gets no swap: out of memory, it is killed and not slow."""
    options: dict[str, Any] = {}
    if limits.cpus is not None:
        options["nano_cpus"] = round(limits.cpus * BILLION)
    if limits.memory_mb is not None:
        options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * MEGABYTE
    return options


if TYPE_CHECKING:
    from docker.client import DockerClient

START_S = 60.0
"""Deadline for the daemon to create or start a container, on a machine where many start."""

LOOK_S = 2.0
"""Deadline for an inspection. The daemon answers it from memory."""

STOP_MARGIN_S = 10.0
"""Time beyond a container's grace period, for killing it and for the daemon to clean up."""

TEMPORARY = {"/tmp": "rw,exec,nosuid,nodev,mode=1777"}
"""Temporary file system. Spark unpacks libraries there and loads them."""

_OWN = re.compile(r"/containers/([0-9a-f]{64})/")
"""Directory of the files that a daemon mounts into each of its containers. It names the container."""


@dataclass(frozen=True)
class Description:
    """A container to create: the program in it, and the parts of the machine that it sees.

    Its root is read-only, it has no privileges, and its output goes to `log`. No process has to outlive the
    container's creator to carry the output.
    """

    name: str
    image: str
    command: tuple[str, ...]
    log: Path
    """File that output is appended to. It must be in one of the mounts."""
    mounts: tuple[Path, ...]
    """Directories that it may write, at the same paths as outside."""
    read_only: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: ContainerLimits = field(default_factory=ContainerLimits)
    niceness: int = 0
    """Levels by which it lets other containers go first on a busy processor."""
    user: str | None = None
    """`uid:gid`. None: as the image says."""
    init: bool = False
    """True if an init process must adopt those whose parents have ended."""
    beside: str | None = None
    """Container whose network and processes it shares, with those mounts that hold `mounts` and `read_only`.

    None: it shares the machine's network and nothing else."""


@dataclass(frozen=True)
class Look:
    """State of a container."""

    id: str
    running: bool
    pid: int
    """Its first process's pid on the daemon's machine. 0 when it does not run."""
    exit_code: int
    out_of_memory: bool
    """True if the system killed a process in it that needed more than the container's memory."""
    memory_bytes: int
    """Memory that it may use. 0: no limit."""
    error: str
    """The daemon's reason for a failed start."""
    labels: Mapping[str, str]


def create(description: Description, host: str | None = None) -> str:
    """Create a container without starting it, and return its id.

    Raises `DaemonError`: no such image, name in use, …
    """
    from docker.types import LogConfig

    with daemon(host, START_S) as docker:
        options = limiting(description.limits) | _surroundings(docker, description)
        made = docker.containers.create(
            description.image,
            entrypoint=["/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1', str(description.log)],
            command=list(description.command),
            name=description.name,
            environment=dict(description.environment),
            labels=dict(description.labels),
            user=description.user,
            read_only=True,
            working_dir="/tmp",
            tmpfs=TEMPORARY,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config=LogConfig(type=LogConfig.types.NONE),
            init=description.init or None,
            cpu_shares=round(DEFAULT_SHARES / NICER**description.niceness),
            **options,
        )
        return str(made.id)


def _surroundings(docker: DockerClient, description: Description) -> dict[str, Any]:
    """Return options for what it shares with its machine, or with the container beside which it runs."""
    writable, read_only = description.mounts, description.read_only
    if description.beside is None:
        binds = [f"{path}:{path}:rw" for path in writable] + [f"{path}:{path}:ro" for path in read_only]
        return {"network_mode": "host", "volumes": binds}
    # Only some of its mounts, because the daemon's own socket is one of them.
    wanted = (*writable, *read_only)
    own: dict[str, Any] = docker.api.inspect_container(description.beside)
    binds = [
        f"{mount.get('Name') or mount['Source']}:{mount['Destination']}:{'rw' if mount['RW'] else 'ro'}"
        for mount in own["Mounts"]
        if any(_holds(Path(mount["Destination"]), path) for path in wanted)
    ]
    shared = f"container:{description.beside}"
    return {"network_mode": shared, "pid_mode": shared, "volumes": binds}


def _holds(mounted: Path, path: Path) -> bool:
    """True if the mounted directory contains `path` or is inside it."""
    return path.is_relative_to(mounted) or mounted.is_relative_to(path)


def start(name: str, host: str | None = None) -> Look:
    """Start a created container and return its state. Raises `DaemonError`."""
    with daemon(host, START_S) as docker:
        docker.api.start(name)
        return _look(docker, name)


def look(name: str, host: str | None = None) -> Look | None:
    """Return a container's state, or None if it does not exist. Raises `DaemonError`."""
    from docker.errors import NotFound

    with daemon(host, LOOK_S) as docker:
        try:
            return _look(docker, name)
        except NotFound:
            return None


def memory_bytes(name: str, host: str | None = None) -> int:
    """Return the memory that processes in a container use. Raises `DaemonError`.

    Files that are cached only because there is room do not count.
    """
    with daemon(host, LOOK_S) as docker:
        stats: dict[str, Any] = docker.api.stats(name, stream=False, one_shot=True)  # type: ignore[assignment]
    memory = stats.get("memory_stats", {})
    details = memory.get("stats", {})
    # Each generation of control groups has its own name for it.
    cached = details.get("total_inactive_file", details.get("inactive_file", 0))
    return max(0, int(memory.get("usage", 0)) - int(cached))


def remove(name: str, *, grace_s: float, host: str | None = None) -> bool:
    """Stop a container, kill it after `grace_s` seconds, and remove it with its log.

    Do nothing if there is none. Returns True if it ran. Raises `DaemonError`.
    """
    from docker.errors import APIError

    from towpath.containers.errors import Conflict, Missing

    found = look(name, host)
    if found is None:
        return False
    try:
        with daemon(host, grace_s + STOP_MARGIN_S) as docker:
            if found.running and grace_s > 0:
                # A paused container cannot end in good order. It is killed below.
                with contextlib.suppress(APIError):
                    docker.api.stop(found.id, timeout=math.ceil(grace_s))
            docker.api.remove_container(found.id, force=True, v=True)
    except (Missing, Conflict):
        pass  # Someone else is removing it at this moment.
    return found.running


@lru_cache(maxsize=8)
def own_id(host: str | None = None) -> str | None:
    """Return the id of the container in which this process runs, if this daemon has it. None otherwise.

    Being inside of some container does not say whose it is. Raises `DaemonError`.
    """
    from docker.errors import NotFound

    mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
    for candidate in dict.fromkeys(_OWN.findall(mounts)):
        with daemon(host) as docker:
            try:
                return _look(docker, candidate).id
            except NotFound:
                continue
    return None


def _look(docker: DockerClient, name: str) -> Look:
    attributes: dict[str, Any] = docker.api.inspect_container(name)
    state = attributes["State"]
    return Look(
        id=attributes["Id"],
        running=bool(state["Running"]),
        pid=int(state["Pid"]),
        exit_code=int(state["ExitCode"]),
        out_of_memory=bool(state["OOMKilled"]),
        memory_bytes=int(attributes["HostConfig"]["Memory"]),
        error=state.get("Error", ""),
        labels=attributes["Config"]["Labels"] or {},
    )
