"""What a container daemon refuses, and its absence, as typed errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import ReadTimeout, RequestException
from urllib3.exceptions import HTTPError, ReadTimeoutError

from towpath.containers.daemon import HOST
from towpath.contracts.errors import ErrorCode, TowpathError

USUAL_HOST = "unix:///var/run/docker.sock"
"""Where Docker listens when the environment says nothing else."""

CONFLICT_STATUS = 409

_CONTAINER = re.compile(r"[Nn]o such container: (\S+)")
_NETWORK = re.compile(r"network (\S+) not found")
_IMAGE = re.compile(r"(?:[Nn]o such image:|pull access denied for|manifest for) ([^\s,]+)")
_IN_USE = re.compile(r'name "/?([^"]+)" is already in use')


class DaemonError(TowpathError):
    """Whatever goes wrong between us and a container daemon."""


class NoDaemon(DaemonError):
    """None answers where one should listen."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(
            ErrorCode.UNREACHABLE,
            f"no container daemon answers at {host} ({why}): start one (`systemctl start docker`, or "
            f"`infra/docker/daemon.sh start <directory>`), or say where one listens in {HOST}",
            field=HOST,
            value=host,
            allowed=f"such as {USUAL_HOST}",
        )


class NoPermission(DaemonError):
    """There is a daemon, and this user may not ask it."""

    def __init__(self, host: str) -> None:
        super().__init__(
            ErrorCode.NOT_ALLOWED,
            "this user may not ask the container daemon",
            field=HOST,
            value=host,
            allowed="members of the group that owns the socket (usually `docker`), and root",
        )


class SlowDaemon(DaemonError):
    """It did not answer in time. What was asked for may happen all the same."""

    def __init__(self, host: str) -> None:
        super().__init__(
            ErrorCode.DEADLINE, "the container daemon does not answer in time", field=HOST, value=host
        )


class Missing(DaemonError):
    """There is no such thing at the daemon."""

    kind = "container"

    def __init__(self, name: str, known: list[str] | None = None) -> None:
        super().__init__(
            ErrorCode.INVALID, f"there is no such {self.kind}", field=self.kind, value=name, allowed=known
        )


class NoSuchContainer(Missing):
    """No container has this name, whether it runs or not."""


class NoSuchImage(Missing):
    """No image has this name at the daemon, and none can be fetched."""

    kind = "image"


class NoSuchNetwork(Missing):
    """No network has this name."""

    kind = "network"


class Conflict(DaemonError):
    """What was asked for does not go with how something is now: a name in use, a container that is paused."""

    def __init__(self, why: str) -> None:
        in_use = _IN_USE.search(why)
        super().__init__(
            ErrorCode.NAME_IN_USE if in_use else ErrorCode.NOT_ALLOWED,
            f"the container daemon refuses it: {why}",
            field="container",
            value=in_use[1] if in_use else None,
        )


class Refused(DaemonError):
    """Anything else that the daemon says no to."""

    def __init__(self, why: str, code: ErrorCode = ErrorCode.FAILED) -> None:
        super().__init__(code, f"the container daemon does not do it: {why}", field="container")


def translated(error: DockerException | RequestException | HTTPError, host: str | None = None) -> DaemonError:
    """What the client library raised, as one of the above."""
    if isinstance(error, APIError):
        return _of_answer(error)
    host = host or os.environ.get(HOST) or USUAL_HOST
    causes = list(_causes(error))
    if any(isinstance(cause, PermissionError) for cause in causes):
        return NoPermission(host)
    if any(isinstance(cause, ReadTimeout | ReadTimeoutError) for cause in causes):
        return SlowDaemon(host)
    reasons = [cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror]
    return NoDaemon(host, reasons[-1] if reasons else str(error))


def _of_answer(error: APIError) -> DaemonError:
    why = str(error.explanation or error).strip()
    if isinstance(error, NotFound):
        for pattern, kind in (
            (_CONTAINER, NoSuchContainer),
            (_NETWORK, NoSuchNetwork),
            (_IMAGE, NoSuchImage),
        ):
            if found := pattern.search(why):
                return kind(found[1])
        if isinstance(error, ImageNotFound):
            return NoSuchImage(why)
    if error.status_code == CONFLICT_STATUS:
        return Conflict(why)
    return Refused(why)


def _causes(error: BaseException, depth: int = 8) -> Iterator[BaseException]:
    """The error and what it was made of: libraries wrap them as causes and as arguments."""
    if depth == 0:
        return
    yield error
    inner = [error.__cause__, error.__context__, *error.args]
    for each in inner:
        if isinstance(each, BaseException):
            yield from _causes(each, depth - 1)
