"""The container daemon that the environment names (`DOCKER_HOST`, or the usual socket).

Everything here blocks: on an event loop, use a thread.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from towpath.containers.errors import HOST, NoSuchContainer

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

ANSWER_S = 5.0
"""For the daemon to answer one request."""


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
        raise NoSuchContainer(name, _names(docker)) from None


def names(host: str | None = None) -> list[str]:
    """All containers, those that do not run, too. Raises `DaemonError`."""
    with daemon(host) as docker:
        return _names(docker)


def _names(docker: DockerClient) -> list[str]:
    # What goes away between the list and a look at it would otherwise be an error.
    found = docker.containers.list(all=True, ignore_removed=True)
    return sorted(str(container.name) for container in found)


@cache
def _client(host: str | None, answer_s: float) -> DockerClient:
    """One for all who ask: it keeps its connections. Is not there without a daemon, and tried again then."""
    from docker.client import DockerClient

    return DockerClient.from_env(
        timeout=math.ceil(answer_s), environment={**os.environ, HOST: host} if host else os.environ
    )
