"""Done to containers by name: killed, restarted, stopped, paused, and let go on."""

from __future__ import annotations

from towpath.containers.daemon import daemon, find
from towpath.containers.errors import NoSuchContainer

STOP_S = 3
"""Between asking what runs in a container to end, and killing it, when nothing else is said."""

RESTARTED_AFTER_A_CRASH = frozenset({"always", "unless-stopped", "on-failure"})
"""Restart policies by which the daemon starts a container that died."""


def kill(name: str) -> None:
    """Kill everything in it, as a crash does. Harmless when it does not run. Raises `DaemonError`.

    The daemon takes a kill by its user for the user's wish that the container be gone, whatever its restart
    policy says. So call `start_if_kept` afterwards.
    """
    with daemon() as docker:
        container = find(docker, name)
        if container.status in ("running", "paused", "restarting"):
            container.kill()


def start_if_kept(name: str) -> None:
    """Start it if it does not run and its restart policy says that it shall. Raises `DaemonError`."""
    with daemon() as docker:
        container = find(docker, name)
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
        if container.status != "exited":
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
