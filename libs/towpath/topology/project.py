"""A compose project: brought up, looked at, taken away. Everything here blocks."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from towpath.containers.daemon import daemon
from towpath.contracts.errors import ErrorCode, TowpathError

PROJECT_LABEL, SERVICE_LABEL = "com.docker.compose.project", "com.docker.compose.service"
"""What compose, either version, says of a container."""

COMMAND_S = 300.0
"""For one command of compose. To end containers in good order takes most."""

LOOK_EVERY_S = 0.5

TAIL_LINES = 3


@dataclass(frozen=True, slots=True)
class Part:
    """A container of a project."""

    service: str
    """Its name in the compose file."""
    container: str
    """Its name at the daemon."""
    state: str
    """`running`, `exited`, `restarting`, …"""
    health: str | None
    """`starting`, `healthy` or `unhealthy`; null: nobody looks."""

    @property
    def works(self) -> bool:
        """Whether it runs, and nothing speaks against it."""
        return self.state == "running" and self.health in (None, "healthy")


@dataclass(frozen=True)
class ComposeProject:
    """The containers, networks and volumes that a compose file describes."""

    file: Path
    name: str
    """Names of containers, networks and volumes begin with it."""
    profiles: tuple[str, ...] = field(default=())
    """What is taken away with the rest although it is not started with it."""

    def up(self, *services: str) -> None:
        """Start all containers, or these and what they depend on. Raises `TowpathError`."""
        self._compose("up", "--detach", "--no-build", *services)

    def down(self) -> None:
        """Take away containers, networks and volumes: nothing stays. Harmless when nothing is there.
        Raises `TowpathError`."""
        self._compose("down", "--volumes", "--remove-orphans")

    def parts(self) -> dict[str, Part]:
        """The containers that there are, by service. Raises `DaemonError`."""
        with daemon() as docker:
            found = docker.containers.list(
                all=True, filters={"label": f"{PROJECT_LABEL}={self.name}"}, ignore_removed=True
            )
            shown = [(c.labels[SERVICE_LABEL], str(c.name), c.attrs["State"]) for c in found]
        return {
            service: Part(service, container, state["Status"], state.get("Health", {}).get("Status"))
            for service, container, state in shown
        }

    def container(self, service: str) -> str:
        """The daemon's name of a service's container. Raises `TowpathError`."""
        parts = self.parts()
        if service not in parts:
            raise TowpathError(
                ErrorCode.INVALID, "no such container", field="service", value=service, allowed=sorted(parts)
            )
        return parts[service].container

    def until_healthy(self, within_s: float, tell: Callable[[str], None] = lambda text: None) -> None:
        """Wait until every container works; `tell` is told which do not yet.

        Raises `TowpathError` (deadline) with the end of the log of what does not.
        """
        end = time.monotonic() + within_s
        while True:
            parts = self.parts()
            missing = sorted(name for name, part in parts.items() if not part.works)
            if parts and not missing:
                return
            if time.monotonic() > end:
                why = "; ".join(self._why(parts[name]) for name in missing) or "there are no containers"
                raise TowpathError(ErrorCode.DEADLINE, f"after {within_s:.0f} s not healthy: {why}")
            tell(f"waiting for {', '.join(missing)}")
            time.sleep(LOOK_EVERY_S)

    def _why(self, part: Part) -> str:
        with daemon() as docker:
            said = docker.containers.get(part.container).logs(tail=TAIL_LINES).decode(errors="replace")
        lines = " | ".join(line.strip() for line in said.splitlines())
        return f"{part.service} is {part.health or part.state}, its log ends with: {lines}"

    def _compose(self, *arguments: str) -> None:
        profiles = [option for profile in self.profiles for option in ("--profile", profile)]
        command = [*compose_command(), "--file", str(self.file), "--project-name", self.name]
        _run([*command, *profiles, *arguments])


@cache
def compose_command() -> tuple[str, ...]:
    """Compose as it is installed: `docker compose`, else `docker-compose`. Raises `TowpathError`."""
    docker = shutil.which("docker")
    if docker and subprocess.run([docker, "compose", "version"], capture_output=True).returncode == 0:
        return (docker, "compose")
    if old := shutil.which("docker-compose"):
        return (old,)
    raise TowpathError(
        ErrorCode.FAILED,
        "compose is not installed",
        field="PATH",
        allowed="`docker compose` 2 or docker-compose 1.29; `infra/docker/daemon.sh` installs it on Debian",
    )


def _run(command: Sequence[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S)
    except subprocess.TimeoutExpired:
        raise TowpathError(
            ErrorCode.DEADLINE, f"compose did not end within {COMMAND_S:.0f} s: {' '.join(command)}"
        ) from None
    if ended.returncode:
        said = [line.strip() for line in ended.stderr.splitlines() if line.strip()]
        raise TowpathError(ErrorCode.FAILED, f"compose failed: {' | '.join(said[-5:]) or command}")
