"""Descriptions of processes to keep running."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.contracts.job import ContainerLimits


@dataclass(frozen=True)
class Container:
    """A container for a child, instead of a process beside its supervisor.

    It shares its starter's network, so addresses stay the same. It has `mounts` at the same paths, so paths
    stay the same, too.
    """

    home: Path
    """Directory of the mesh. It makes names of containers differ between meshes on one machine."""
    image: str
    """Image with a shell and with the programs of commands by their names."""
    mounts: tuple[Path, ...]
    """Directories that the container may write. The log must be in one of them."""
    read_only: tuple[Path, ...] = ()
    """Files and directories that it may only read."""
    image_archive: str | None = None
    """File to load a missing image from. None: pull it from its registry."""
    docker_host: str | None = None
    """Address of the daemon. None: as the environment says."""
    limits: ContainerLimits = field(default_factory=ContainerLimits)
    starts_others: bool = False
    """True if the command has children. An init process must then adopt those whose parents have ended."""


@dataclass(frozen=True)
class ChildSpec:
    """A process to keep running."""

    name: str
    """Unique name under one run directory. It also names the pid file."""
    command: tuple[str, ...]
    log: Path
    """File of its output. The log of the previous run is kept as `<log>.1`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the caller's environment."""
    ready: Callable[[], Awaitable[bool]] | None = None
    """Probe that returns True when it can be used. Without a probe, a process is ready as soon as it runs."""
    ready_s: float = 60.0
    """Seconds until it must be ready. After that it is restarted."""
    stop_s: float = 8.0
    """Seconds between SIGTERM and SIGKILL."""
    niceness: int = 0
    """Levels by which it lets other processes go first on a busy processor, as those of `nice`."""
    after: tuple[str, ...] = ()
    """Children that must be ready before it starts, and that end after it."""
    version: str = ""
    """Digest of its configuration. A running process of another version is replaced.

    The list of processes shows it to everyone, so it must not contain a secret."""
    container: Container | None = None
    """Its container. None: it is a process beside its supervisor."""

    @property
    def kept_version(self) -> str:
        """Return the version that a running child must have to be the wanted one."""
        if self.container is None:
            return self.version
        return version_of(f"{self.version}\n{self.container}")


def version_of(configuration: str) -> str:
    """Return the digest of a process's configuration, for `ChildSpec.version`."""
    return hashlib.sha256(configuration.encode()).hexdigest()[:16]
