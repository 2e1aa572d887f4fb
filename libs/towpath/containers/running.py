"""One container at a time: made, started, looked at, ended, removed. Everything here blocks."""

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
"""The daemon counts parts of a processor in these."""

MEGABYTE = 1024**2
"""As Docker's and Java's `m`, compose files among them: one number means one size wherever it is given."""


def limiting(limits: ContainerLimits) -> dict[str, Any]:
    """The options of a new container. It gets no swap: what is out of memory is killed, not slow."""
    options: dict[str, Any] = {}
    if limits.cpus is not None:
        options["nano_cpus"] = round(limits.cpus * BILLION)
    if limits.memory_mb is not None:
        options["mem_limit"] = options["memswap_limit"] = limits.memory_mb * MEGABYTE
    return options


if TYPE_CHECKING:
    from docker.client import DockerClient

START_S = 60.0
"""For the daemon to make or start a container, on a machine where many start."""

LOOK_S = 2.0
"""For it to say how one is: it has that in memory."""

STOP_MARGIN_S = 10.0
"""Beyond the grace of what is asked to end: for killing it, and for the daemon to clean up."""

TEMPORARY = {"/tmp": "rw,exec,nosuid,nodev,mode=1777"}
"""Spark unpacks libraries there and loads them."""

_OWN = re.compile(r"/containers/([0-9a-f]{64})/")
"""The files that a daemon mounts into each of its containers come from a directory of this name."""


@dataclass(frozen=True)
class Description:
    """A container to be made: what runs in it, and what it sees of its machine.

    Its root cannot be written, it has no privileges, and whatever it says goes to `log`: nothing stands
    between the two that would have to outlive whoever made the container.
    """

    name: str
    image: str
    command: tuple[str, ...]
    log: Path
    """File that output is appended to; in one of the mounts."""
    mounts: tuple[Path, ...]
    """What it may write, at the paths that these have outside."""
    read_only: tuple[Path, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    limits: ContainerLimits = field(default_factory=ContainerLimits)
    user: str | None = None
    """`uid:gid`; null: as the image says."""
    init: bool = False
    """Whether a process before the command takes in those whose parents have ended."""
    beside: str | None = None
    """Container whose network and processes it shares, and those of whose mounts that hold `mounts` and
    `read_only`; null: it shares the machine's network and nothing else."""


@dataclass(frozen=True)
class Look:
    """How a container is."""

    id: str
    running: bool
    pid: int
    """Of its first process, as the daemon's machine counts; 0 when it does not run."""
    exit_code: int
    out_of_memory: bool
    """Whether the system has killed a process in it that needed more than the container may use."""
    memory_bytes: int
    """What it may use; 0: as much as there is."""
    error: str
    """What the daemon says of a start that failed."""
    labels: Mapping[str, str]


def create(description: Description, host: str | None = None) -> str:
    """Make a container that does not run yet; its id. Raises `DaemonError`: no such image, name in use, …"""
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
            **options,
        )
        return str(made.id)


def _surroundings(docker: DockerClient, description: Description) -> dict[str, Any]:
    """What it shares with its machine, or with the container that it runs beside."""
    writable, read_only = description.mounts, description.read_only
    if description.beside is None:
        binds = [f"{path}:{path}:rw" for path in writable] + [f"{path}:{path}:ro" for path in read_only]
        return {"network_mode": "host", "volumes": binds}
    # Not all of its mounts: the daemon's own socket is one of them.
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
    """Whether what is mounted there has a part in what `path` names."""
    return path.is_relative_to(mounted) or mounted.is_relative_to(path)


def start(name: str, host: str | None = None) -> Look:
    """Start a container that was made; how it is then. Raises `DaemonError`."""
    with daemon(host, START_S) as docker:
        docker.api.start(name)
        return _look(docker, name)


def look(name: str, host: str | None = None) -> Look | None:
    """How a container is; None when there is none. Raises `DaemonError`."""
    from docker.errors import NotFound

    with daemon(host, LOOK_S) as docker:
        try:
            return _look(docker, name)
        except NotFound:
            return None


def memory_bytes(name: str, host: str | None = None) -> int:
    """What the processes in a container use, without files that are only kept in memory because there is
    room. Raises `DaemonError`."""
    with daemon(host, LOOK_S) as docker:
        stats: dict[str, Any] = docker.api.stats(name, stream=False, one_shot=True)  # type: ignore[assignment]
    memory = stats.get("memory_stats", {})
    details = memory.get("stats", {})
    # One name for each of the two generations of control groups.
    cached = details.get("total_inactive_file", details.get("inactive_file", 0))
    return max(0, int(memory.get("usage", 0)) - int(cached))


def remove(name: str, *, grace_s: float, host: str | None = None) -> bool:
    """Ask a container to end, kill what has not after `grace_s` seconds, and remove it with its log.

    Harmless when there is none. Returns whether it ran. Raises `DaemonError`.
    """
    from docker.errors import APIError

    from towpath.containers.errors import Conflict, Missing

    found = look(name, host)
    if found is None:
        return False
    try:
        with daemon(host, grace_s + STOP_MARGIN_S) as docker:
            if found.running and grace_s > 0:
                # What is paused cannot end in good order: it is killed below.
                with contextlib.suppress(APIError):
                    docker.api.stop(found.id, timeout=math.ceil(grace_s))
            docker.api.remove_container(found.id, force=True, v=True)
    except (Missing, Conflict):
        pass  # Somebody else is removing it at this moment.
    return found.running


@lru_cache(maxsize=8)
def own_id(host: str | None = None) -> str | None:
    """The container of this daemon's that this process runs in; None on the machine itself.

    Whether one is inside of some container does not say whose. Raises `DaemonError`.
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
