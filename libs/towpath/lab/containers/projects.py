"""The containers of a compose project: whether they work, and how to remove them all. It all blocks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from towpath.containers.daemon import daemon, find
from towpath.contracts.errors import ErrorCode, TowpathError

PROJECT_LABEL, SERVICE_LABEL = "com.docker.compose.project", "com.docker.compose.service"
"""Labels that compose, either version, puts on a container."""

LOOK_EVERY_S = 0.5

REMOVE_S = 60.0
"""For the daemon to remove one container: it ends the processes in it first."""


TAIL_LINES = 3
"""Lines of a failed container's log in an error message: the error and its cause."""


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
    """`starting`, `healthy` or `unhealthy`. None: it has no health check."""

    @property
    def works(self) -> bool:
        """True if it runs and its health check has nothing against it."""
        return self.state == "running" and self.health in (None, "healthy")


def parts(project: str) -> dict[str, ContainerPart]:
    """Return the containers of a project by service. Raises `DaemonError`."""
    with daemon() as docker:
        label = f"{PROJECT_LABEL}={project}"
        found = docker.containers.list(all=True, filters={"label": label}, ignore_removed=True)
        shown = [(c.labels[SERVICE_LABEL], str(c.name), c.attrs["State"]) for c in found]
    return {
        service: ContainerPart(service, container, state["Status"], state.get("Health", {}).get("Status"))
        for service, container, state in shown
    }


def until_healthy(project: str, within_s: float) -> None:
    """Wait until every container of the project works.

    Raises `TowpathError` (deadline) with the ends of the logs of those that do not.
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
        time.sleep(LOOK_EVERY_S)


def why(part: ContainerPart) -> str:
    """Describe a container that does not work, with the end of its log. Raises `DaemonError`."""
    with daemon() as docker:
        said = find(docker, part.container).logs(tail=TAIL_LINES).decode(errors="replace")
    lines = " | ".join(line.strip() for line in said.splitlines())
    return f"{part.service} is {part.health or part.state}, its log ends with: {lines or 'nothing'}"


def remove_project(project: str) -> list[str]:
    """Remove all containers of a project, running or not, its networks and volumes, and return their names.

    It needs no compose file, so it also removes a project whose directory is lost. Raises `DaemonError`.
    """
    labelled: Any = {"label": f"{PROJECT_LABEL}={project}"}
    with daemon(answer_s=REMOVE_S) as docker:
        containers = docker.containers.list(all=True, filters=labelled, ignore_removed=True)
        for container in containers:
            container.remove(force=True, v=True)
        networks = docker.networks.list(filters=labelled)
        for network in networks:
            network.remove()
        volumes = docker.volumes.list(filters=labelled)
        for volume in volumes:
            volume.remove(force=True)
        return [str(thing.name) for thing in (*containers, *networks, *volumes)]
