"""Everything that belongs to a compose project, by the label that compose, either version, puts on it."""

from __future__ import annotations

from typing import Any

from towpath.containers.daemon import daemon

PROJECT_LABEL = "com.docker.compose.project"

REMOVE_S = 60.0
"""For the daemon to remove one thing: it ends what runs in a container first."""


def remove_project(project: str, host: str | None = None) -> list[str]:
    """Remove all containers of a project, running or not, its networks and its volumes; their names.

    Needs no compose file: also what is left of a project whose directory is lost goes. Raises `DaemonError`.
    """
    labelled: Any = {"label": f"{PROJECT_LABEL}={project}"}
    with daemon(host, REMOVE_S) as docker:
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
