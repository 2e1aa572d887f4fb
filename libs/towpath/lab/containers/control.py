"""Done to containers by name: killed, restarted, stopped, paused, and let go on."""

from __future__ import annotations

from towpath.containers.daemon import daemon, find
from towpath.containers.errors import NoSuchContainer

STOP_S = 3
"""Between asking what runs in a container to end, and killing it, when nothing else is said."""

UP = frozenset({"running", "paused", "restarting"})
"""Statuses of a container that is to run."""

RESTARTED_AFTER_A_CRASH = frozenset({"always", "unless-stopped", "on-failure"})
"""Restart policies by which the daemon starts a container that died."""


def kill(name: str) -> bool:
    """Kill everything in it, as a crash does; whether it ran. Raises `DaemonError`.

    The daemon takes a kill for its user's wish that the container be gone, whatever the restart policy says.
    For what would follow a crash, call `start_if_kept` afterwards.
    """
    with daemon() as docker:
        container = find(docker, name)
        ran = container.status in UP
        if ran:
            container.kill()
        return ran


def start_if_kept(name: str) -> None:
    """Start it if its restart policy says that it shall run. Harmless when it does, or is not there any more.
    Raises `DaemonError`."""
    with daemon() as docker:
        try:
            container = find(docker, name)
        except NoSuchContainer:
            return
        policy = container.attrs["HostConfig"]["RestartPolicy"]["Name"]
        if policy in RESTARTED_AFTER_A_CRASH:
            container.start()


def restart(name: str, grace_s: int = STOP_S) -> None:
    """End what runs in it, and start it again. Raises `DaemonError`."""
    with daemon() as docker:
        find(docker, name).restart(timeout=grace_s)


def stop(name: str, grace_s: int = STOP_S) -> None:
    """Ask what runs in it to end, kill what has not after `grace_s` seconds. Nobody starts it again by
    itself. Harmless when it does not run. Raises `DaemonError`."""
    with daemon() as docker:
        container = find(docker, name)
        if container.status in UP:
            container.stop(timeout=grace_s)


def start(name: str) -> None:
    """Start it. Harmless when it runs, or is not there any more. Raises `DaemonError`."""
    with daemon() as docker:
        try:
            find(docker, name).start()
        except NoSuchContainer:
            return


def pause(name: str) -> None:
    """Stop everything in it where it is. Harmless when it is stopped already. Raises `DaemonError`."""
    with daemon() as docker:
        container = find(docker, name)
        if container.status == "running":
            container.pause()


def resume(name: str) -> None:
    """Let it go on. Harmless when it runs, or is not there any more. Raises `DaemonError`."""
    with daemon() as docker:
        try:
            container = find(docker, name)
        except NoSuchContainer:
            return
        if container.status == "paused":
            container.unpause()
