"""Containers by name, through the daemon that the environment names (`DOCKER_HOST`, or the usual socket)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from towpath.contracts.errors import ErrorCode, TowpathError

if TYPE_CHECKING:
    from docker.client import DockerClient
    from docker.models.containers import Container

ANSWER_S = 5
"""For the daemon to answer one request."""

STOP_S = 3
"""Between asking what runs in a container to end, and killing it, when it is restarted."""


def names() -> list[str]:
    """The containers that run. Raises `TowpathError` when there is no daemon."""
    with _daemon() as docker:
        return sorted(str(container.name) for container in docker.containers.list())


def kill(name: str) -> None:
    """Kill everything in it; whether it starts anew is its restart policy's. Raises `TowpathError`."""
    _with(name, lambda container: container.kill())


def restart(name: str) -> None:
    """End what runs in it, and start it again. Raises `TowpathError`."""
    _with(name, lambda container: container.restart(timeout=STOP_S))


def pause(name: str) -> None:
    """Stop everything in it where it is. Harmless when it is stopped already. Raises `TowpathError`."""
    _with(name, lambda container: container.pause() if container.status == "running" else None)


def resume(name: str) -> None:
    """Let it go on. Harmless when it runs, or is not there any more. Raises `TowpathError`."""
    try:
        _with(name, lambda container: container.unpause() if container.status == "paused" else None)
    except TowpathError as error:
        if error.detail.field != "name":
            raise


def _with(name: str, do: Callable[[Container], None]) -> None:
    with _daemon() as docker:
        from docker.errors import NotFound

        try:
            do(docker.containers.get(name))
        except NotFound:
            there = sorted(str(container.name) for container in docker.containers.list())
            raise TowpathError(
                ErrorCode.INVALID, "there is no such container", field="name", value=name, allowed=there
            ) from None


@contextmanager
def _daemon() -> Iterator[DockerClient]:
    """The daemon. What it refuses, and its absence, are raised as `TowpathError`."""
    from docker.errors import DockerException  # Not above: it takes long, and most rules need it not.
    from requests.exceptions import RequestException

    try:
        yield _client()
    except (DockerException, RequestException) as error:
        raise TowpathError(
            ErrorCode.UNREACHABLE, f"the container daemon does not do it: {error}", field="container"
        ) from error


@cache
def _client() -> DockerClient:
    from docker import from_env

    return from_env(timeout=ANSWER_S)
