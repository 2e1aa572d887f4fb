"""The container daemon that the environment names (`DOCKER_HOST`, or the usual socket).

Everything here blocks. On an event loop, use a thread.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from towpath.containers.errors import HOST, NoSuchContainer

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

ANSWER_S = 5.0
"""Deadline for the daemon's answer to one request."""


OF_NOBODY = frozenset({"host", "none"})
"""Names that the daemon gives to the absence of a network. No container joins or leaves them."""


@contextmanager
def daemon(host: str | None = None, answer_s: float = ANSWER_S) -> Iterator[DockerClient]:
    """Open the daemon at `host`, or that of the environment.

    Refusals inside the `with` block, and the daemon's absence, are raised as `DaemonError`.
    """
    from docker.errors import DockerException  # Here, because it takes long and few processes need it.
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    from towpath.containers.translation import translated

    try:
        yield _client(host or os.environ.get(HOST) or None, answer_s)
    except (DockerException, RequestException, HTTPError) as error:
        raise translated(error, host) from error


def check(host: str | None = None) -> str:
    """Return the daemon's version. Raises `DaemonError` if it does not answer."""
    with daemon(host) as docker:
        return str(docker.version()["Version"])


def find(docker: DockerClient, name: str) -> Container:
    """Return a container by name or id, running or not. Raises `NoSuchContainer` with the existing names."""
    from docker.errors import NotFound

    try:
        return docker.containers.get(name)
    except NotFound:
        raise NoSuchContainer(name, sorted(each.name for each in listed(docker))) from None


def names(host: str | None = None) -> list[str]:
    """Return the names of all containers, running or not. Raises `DaemonError`."""
    with daemon(host) as docker:
        return sorted(each.name for each in listed(docker))


@dataclass(frozen=True)
class Listed:
    """A container as the daemon's lists show it."""

    id: str
    name: str
    networks: frozenset[str]
    """Names of its networks."""


def listed(docker: DockerClient) -> list[Listed]:
    """Return all containers, running or not, with one request."""
    found: list[dict[str, Any]] = docker.api.containers(all=True)  # type: ignore[assignment]
    return [
        Listed(
            id=each["Id"],
            # Other names belong to containers that are linked to it.
            name=min(each["Names"], key=lambda name: name.count("/")).lstrip("/"),
            networks=frozenset(each["NetworkSettings"]["Networks"] or ()) - OF_NOBODY,
        )
        for each in found
        if each["Names"]
    ]


@cache
def _client(host: str | None, answer_s: float) -> DockerClient:
    """Return one client for all callers: it keeps its connections. A failed attempt is not cached."""
    from docker.client import DockerClient

    return DockerClient.from_env(
        timeout=math.ceil(answer_s), environment={**os.environ, HOST: host} if host else os.environ
    )
