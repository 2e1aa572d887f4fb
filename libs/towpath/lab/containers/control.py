"""Kill, restart, stop, pause and resume containers by name."""

from __future__ import annotations

import contextlib

from towpath.containers.daemon import daemon, find
from towpath.containers.errors import NoSuchContainer

STOP_S = 3
"""Seconds between asking the processes of a container to end, and killing them."""

UP = frozenset({"running", "paused", "restarting"})
"""States of a container that is meant to run."""

RESTARTED_AFTER_A_CRASH = frozenset({"always", "unless-stopped", "on-failure"})
"""Restart policies by which the daemon starts a container that died."""


def kill(name: str) -> bool:
    """Kill everything in it, as a crash does. Return true if it ran. Raises `DaemonError`.

    The daemon does not restart a killed container, whatever the restart policy says. Call `start_if_kept`
    afterwards to do what it would do after a crash.
    """
    with daemon() as docker:
        container = find(docker, name)
        ran = container.status in UP
        if ran:
            container.kill()
        return ran


def start_if_kept(name: str) -> None:
    """Start it if its restart policy says so. Harmless if it runs, or is gone. Raises `DaemonError`."""
    with contextlib.suppress(NoSuchContainer), daemon() as docker:
        container = find(docker, name)
        policy = container.attrs["HostConfig"]["RestartPolicy"]["Name"]
        if policy in RESTARTED_AFTER_A_CRASH:
            container.start()


def restart(name: str) -> None:
    """End its processes, and start it again. Raises `DaemonError`."""
    with daemon() as docker:
        find(docker, name).restart(timeout=STOP_S)


def stop(name: str, grace_s: int = STOP_S) -> None:
    """Ask its processes to end, and kill those that have not after `grace_s` seconds. It stays stopped.

    Harmless if it does not run. Raises `DaemonError`.
    """
    with daemon() as docker:
        container = find(docker, name)
        if container.status in UP:
            container.stop(timeout=grace_s)


def start(name: str) -> None:
    """Start it. Harmless if it runs, or is gone. Raises `DaemonError`."""
    with contextlib.suppress(NoSuchContainer), daemon() as docker:
        find(docker, name).start()


def pause(name: str) -> None:
    """Freeze everything in it. Harmless if it is frozen already. Raises `DaemonError`."""
    with daemon() as docker:
        container = find(docker, name)
        if container.status == "running":
            container.pause()


def resume(name: str) -> None:
    """Let it go on. Harmless if it runs, or is gone. Raises `DaemonError`."""
    with contextlib.suppress(NoSuchContainer), daemon() as docker:
        container = find(docker, name)
        if container.status == "paused":
            container.unpause()
