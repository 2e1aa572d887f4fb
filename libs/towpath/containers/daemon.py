"""The container daemon that the environment names (`DOCKER_HOST`, or the usual socket).

Everything here blocks: on an event loop, use a thread.
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
"""For the daemon to answer one request."""


OF_NOBODY = frozenset({"host", "none"})
"""What the daemon calls a network without being one: nothing is put on it or taken off."""


@contextmanager
def daemon(host: str | None = None, answer_s: float = ANSWER_S) -> Iterator[DockerClient]:
    """The daemon at `host`, or that of the environment. What it refuses in the body of the `with`, and its
    absence, are raised as a `DaemonError`."""
    from docker.errors import DockerException  # Not above: it takes long, and most processes need it not.
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    from towpath.containers.translation import translated

    try:
        yield _client(host or os.environ.get(HOST) or None, answer_s)
    except (DockerException, RequestException, HTTPError) as error:
        raise translated(error, host) from error


def check(host: str | None = None) -> str:
    """Ask the daemon whether it is there; its version. Raises `DaemonError`."""
    with daemon(host) as docker:
        return str(docker.version()["Version"])


def find(docker: DockerClient, name: str) -> Container:
    """A container by name or id, running or not. Raises `NoSuchContainer` with the names that there are."""
    from docker.errors import NotFound

    try:
        return docker.containers.get(name)
    except NotFound:
        raise NoSuchContainer(name, sorted(each.name for each in listed(docker))) from None


def names(host: str | None = None) -> list[str]:
    """All containers, those that do not run, too. Raises `DaemonError`."""
    with daemon(host) as docker:
        return sorted(each.name for each in listed(docker))


@dataclass(frozen=True)
class Listed:
    """A container, as lists of them tell it."""

    id: str
    name: str
    networks: frozenset[str]
    """Names of those that it is on."""


def listed(docker: DockerClient) -> list[Listed]:
    """All containers, in one request: those that do not run, too."""
    found: list[dict[str, Any]] = docker.api.containers(all=True)  # type: ignore[assignment]
    return [
        Listed(
            id=each["Id"],
            # Others are those that a container has for containers that are linked to it.
            name=min(each["Names"], key=lambda name: name.count("/")).lstrip("/"),
            networks=frozenset(each["NetworkSettings"]["Networks"] or ()) - OF_NOBODY,
        )
        for each in found
        if each["Names"]
    ]


@cache
def _client(host: str | None, answer_s: float) -> DockerClient:
    """One for all who ask: it keeps its connections. Is not there without a daemon, and tried again then."""
    from docker.client import DockerClient

    return DockerClient.from_env(
        timeout=math.ceil(answer_s), environment={**os.environ, HOST: host} if host else os.environ
    )
