"""What is to be kept running."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towpath.contracts.job import ContainerLimits


@dataclass(frozen=True)
class Container:
    """What a child runs in, instead of being a process beside its supervisor.

    It shares the network of whoever starts it, so addresses stay what they are, and has `mounts` at the same
    paths, so paths do.
    """

    home: Path
    """Directory of the mesh: containers of two meshes on one machine have different names."""
    image: str
    """Has the programs of commands by their names, and a shell."""
    mounts: tuple[Path, ...]
    """Directories that it may write; the log must be in one of them."""
    read_only: tuple[Path, ...] = ()
    """Files and directories that it may read besides."""
    image_archive: str | None = None
    """File that the image is loaded from if it is missing; null: it is asked of its registry."""
    docker_host: str | None = None
    """Where the daemon listens; null: where the environment says."""
    limits: ContainerLimits = field(default_factory=ContainerLimits)
    starts_others: bool = False
    """Whether the command has children: something must then take in those whose parents have ended."""


@dataclass(frozen=True)
class ChildSpec:
    """A process to keep running."""

    name: str
    """Unique under one run directory: names the pid file."""
    command: tuple[str, ...]
    log: Path
    """Where its output goes. The log of the run before is kept as `<log>.1`."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of the caller."""
    ready: Callable[[], Awaitable[bool]] | None = None
    """Whether it can be used. Without it, a process is ready as soon as it runs."""
    ready_s: float = 60.0
    """Seconds it may take to become ready; then it is started anew."""
    stop_s: float = 8.0
    """Seconds between asking it to end and killing it."""
    after: tuple[str, ...] = ()
    """Children that must be ready before it starts, and that end after it."""
    version: str = ""
    """Changes when its configuration does: a running process of another version is replaced. Everybody
    can read it in the list of processes: a digest, never a secret."""
    container: Container | None = None
    """What it runs in; null: it is a process beside its supervisor."""

    @property
    def kept_version(self) -> str:
        """What a running child must have been started as to be the one that is wanted."""
        if self.container is None:
            return self.version
        text = f"{self.version}\n{self.container}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]
