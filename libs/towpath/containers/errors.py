"""Refusals of a container daemon, and its absence, as typed errors."""

from __future__ import annotations

import re

from towpath.contracts.errors import ErrorCode, TowpathError

HOST = "DOCKER_HOST"
"""Environment variable with the daemon's address."""

USUAL_HOST = "unix:///var/run/docker.sock"
"""Address of Docker if the environment names none."""

_IN_USE = re.compile(r'name "/?([^"]+)" is already in use')


class DaemonError(TowpathError):
    """Any failure between Towpath and a container daemon."""


class NoDaemon(DaemonError):
    """No daemon answers at the address."""

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
    """A daemon answers, but this user may not use it."""

    def __init__(self, host: str) -> None:
        super().__init__(
            ErrorCode.NOT_ALLOWED,
            "this user may not use the container daemon",
            field=HOST,
            value=host,
            allowed="members of the group that owns the socket (usually `docker`), and root",
        )


class SlowDaemon(DaemonError):
    """The daemon did not answer in time. The request may still take effect."""

    def __init__(self, host: str) -> None:
        super().__init__(
            ErrorCode.DEADLINE, "the container daemon did not answer in time", field=HOST, value=host
        )


class Missing(DaemonError):
    """The daemon does not have the named object."""

    kind = "container"

    def __init__(self, name: str, known: list[str] | None = None) -> None:
        super().__init__(
            ErrorCode.INVALID, f"there is no such {self.kind}", field=self.kind, value=name, allowed=known
        )


class NoSuchContainer(Missing):
    """No container has this name, running or not."""


class NoSuchImage(Missing):
    """The daemon has no image of this name, and none can be pulled."""

    kind = "image"


class NoSuchNetwork(Missing):
    """No network has this name."""

    kind = "network"


class Conflict(DaemonError):
    """The request conflicts with the present state: a name in use, a container that is paused."""

    def __init__(self, why: str) -> None:
        in_use = _IN_USE.search(why)
        super().__init__(
            ErrorCode.NAME_IN_USE if in_use else ErrorCode.NOT_ALLOWED,
            f"the container daemon refuses: {why}",
            field="container",
            value=in_use[1] if in_use else None,
        )


class Refused(DaemonError):
    """Any other refusal of the daemon."""

    def __init__(self, why: str, code: ErrorCode = ErrorCode.FAILED) -> None:
        super().__init__(code, f"the container daemon failed: {why}", field="container")
