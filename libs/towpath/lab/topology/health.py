"""Whether the containers of a compose project work, as their health checks say. It all blocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from towpath.containers.daemon import daemon, find
from towpath.contracts.errors import ErrorCode, TowpathError

PROJECT_LABEL, SERVICE_LABEL = "com.docker.compose.project", "com.docker.compose.service"
"""What compose, either version, says of a container."""

LOOK_EVERY_S = 0.5

TAIL_LINES = 3
"""Of the log of what does not work: the error and what led to it, and still one line."""


@dataclass(frozen=True, slots=True)
class ContainerPart:
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


def parts(project: str) -> dict[str, ContainerPart]:
    """The containers of a project, by service. Raises `DaemonError`."""
    with daemon() as docker:
        label = f"{PROJECT_LABEL}={project}"
        found = docker.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        shown = [(c.labels[SERVICE_LABEL], str(c.name), c.attrs["State"]) for c in found]
    return {
        service: ContainerPart(service, container, state["Status"], state.get("Health", {}).get("Status"))
        for service, container, state in shown
    }


def until_healthy(project: str, within_s: float, tell: Callable[[str], None] = lambda text: None) -> None:
    """Wait until every container of the project works; `tell` is told which do not yet.

    Raises `TowpathError` (deadline) with the end of the log of what does not.
    """
    end = time.monotonic() + within_s
    while True:
        there = parts(project)
        missing = [there[name] for name in sorted(there) if not there[name].works]
        if there and not missing:
            return
        if time.monotonic() > end:
            reasons = "; ".join(why(part) for part in missing) or "there are no containers"
            raise TowpathError(ErrorCode.DEADLINE, f"after {within_s:.0f} s not healthy: {reasons}")
        tell(f"waiting for {', '.join(part.service for part in missing)}")
        time.sleep(LOOK_EVERY_S)


def why(part: ContainerPart) -> str:
    """How a container that does not work is, with the end of its log. Raises `DaemonError`."""
    with daemon() as docker:
        said = find(docker, part.container).logs(tail=TAIL_LINES).decode(errors="replace")
    lines = " | ".join(line.strip() for line in said.splitlines())
    return f"{part.service} is {part.health or part.state}, its log ends with: {lines or 'nothing'}"
