"""What a container daemon refuses, and its absence, as typed errors."""

from __future__ import annotations

import re

from towpath.contracts.errors import ErrorCode, TowpathError

HOST = "DOCKER_HOST"
"""Environment variable: where the daemon listens."""

USUAL_HOST = "unix:///var/run/docker.sock"
"""Where Docker listens when the environment says nothing else."""

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
