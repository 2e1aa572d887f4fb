"""Translate errors of the daemon's client library into errors of Towpath."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from requests.exceptions import ReadTimeout, RequestException
from urllib3.exceptions import HTTPError, ReadTimeoutError

from towpath.containers.errors import (
    HOST,
    USUAL_HOST,
    Conflict,
    DaemonError,
    NoDaemon,
    NoPermission,
    NoSuchContainer,
    NoSuchImage,
    NoSuchNetwork,
    Refused,
    SlowDaemon,
)

CONFLICT_STATUS = 409

_CONTAINER = re.compile(r"[Nn]o such container: (\S+)")
_NETWORK = re.compile(r"network (\S+) not found")
_IMAGE = re.compile(r"(?:[Nn]o such image:|pull access denied for|manifest for) ([^\s,]+)")


def translated(error: DockerException | RequestException | HTTPError, host: str | None = None) -> DaemonError:
    """Return the client library's error as a `DaemonError`."""
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
    """Yield the error and those it was made of: libraries wrap them as causes and as arguments."""
    if depth == 0:
        return
    yield error
    inner = [error.__cause__, error.__context__, *error.args]
    for each in inner:
        if isinstance(each, BaseException):
            yield from _causes(each, depth - 1)
