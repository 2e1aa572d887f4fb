"""A container that undoes what a guard has done to others, should the guard's own not come to it.

A guard that runs in a container ends with it, or hangs with it, and with it all that would restart it. So
what it does to containers is watched from another one, of the same image and with the same files:
`python -m towpath.lab.guard.watchdog --home <directory> --scope <site or hub> --watched <container>`. It goes
when nothing is held.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from threading import Event
from typing import Any

from towpath.containers.daemon import daemon, find
from towpath.containers.errors import HOST, USUAL_HOST, Conflict, DaemonError, NoSuchContainer
from towpath.containers.running import own_id
from towpath.contracts.faults import TargetKind
from towpath.lab.containers.control import UP
from towpath.lab.faults.rule_set_file import RuleSetFile
from towpath.lab.guard.held_record import HeldRecord
from towpath.lab.guard.process import guard_name, held_path, start
from towpath.lab.guard.undoing import undo
from towpath.mesh.home import Home

log = logging.getLogger(__name__)

MODULE = "towpath.lab.guard.watchdog"

LOOK_EVERY_S = 0.5
KEEP_EVERY_S = 2.0
"""Between looks of a guard at whether it is watched."""

PATIENCE_S = 3.0
"""Beyond the lease: so long a guard has for what is its duty."""

IDLE_S = 5.0
"""Without anything held, before a watchdog ends: rules are often loaded one after the other."""

START_S = 30.0
MEMORY = "256m"


class Watchdog:
    """Starts the container that watches a guard, for one that runs in a container itself."""

    def __init__(self, home: Home, scope: str) -> None:
        self._home = home
        self._scope = scope
        self._keep_at = 0.0

    def keep(self) -> None:
        """Make sure that one watches, where one is needed. Raises `DaemonError`, and then nothing must be
        held."""
        if time.monotonic() < self._keep_at:
            return
        own = own_id()
        if own is not None:
            _start(own, self._home, self._scope)
        self._keep_at = time.monotonic() + KEEP_EVERY_S


def _start(own: str, home: Home, scope: str) -> None:
    with daemon(answer_s=START_S) as docker:
        ours = find(docker, own)
        name = f"{ours.name}-watchdog-{scope}"
        try:
            if find(docker, name).status == "running":
                return
        except NoSuchContainer:
            pass
        configuration: dict[str, Any] = ours.attrs["Config"]
        try:
            docker.containers.run(
                ours.attrs["Image"],
                entrypoint=[sys.executable, "-m", MODULE],
                command=["--home", str(home.root), "--scope", scope, "--watched", own],
                name=name,
                detach=True,
                auto_remove=True,
                environment=_environment(),
                user=configuration["User"] or None,
                group_add=ours.attrs["HostConfig"]["GroupAdd"] or None,
                volumes_from=[own],
                # A socket is among the files. Those who remove the network must not find this on it.
                network_mode="none" if _by_socket() else ours.attrs["HostConfig"]["NetworkMode"],
                labels={"towpath.watchdog": own},
                init=True,
                read_only=True,
                tmpfs={"/tmp": ""},
                mem_limit=MEMORY,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
        except Conflict:
            log.info("%s is on its way", name)


def _environment() -> dict[str, str]:
    """Where the daemon is, and nothing of what the guard's container is told."""
    return {name: value for name in (HOST, "PATH", "PYTHONPATH") if (value := os.environ.get(name))}


def _by_socket() -> bool:
    return os.environ.get(HOST, USUAL_HOST).startswith("unix:")


def watch(home: Home, scope: str, watched: str, stop: Event) -> None:
    """Undo what a guard in the container `watched` should have undone, until nothing is held for a while.

    Without that container return as soon as nothing is held: those who ended it may want its volumes back."""
    record, rules = held_path(home, scope), RuleSetFile(home.fault_rules(scope))
    held_at = holds_at = time.monotonic()
    while not stop.is_set() and time.monotonic() - held_at < IDLE_S:
        now = time.monotonic()
        holds_at = now if rules.rules() is not None else holds_at
        if record.exists():
            held_at = now
            if now - holds_at > PATIENCE_S:
                _undo_all(home, scope)
        elif not _runs(watched):
            return
        stop.wait(LOOK_EVERY_S)


def _runs(container: str) -> bool:
    """Return true if it does, as far as the daemon says."""
    try:
        with daemon() as docker:
            return find(docker, container).status in UP
    except DaemonError as error:
        return not isinstance(error, NoSuchContainer)


def _undo_all(home: Home, scope: str) -> None:
    """Of containers; what is done to processes ends with the container that they are in."""
    record = HeldRecord(held_path(home, scope))
    for held in record.all():
        if held.target.target is not TargetKind.CONTAINER:
            continue
        log.warning("rule %s still holds something: %s is late", held.key.rule, guard_name(scope))
        try:
            undo(home, held)
        except Exception:
            log.exception("rule %s: %s is not released yet", held.key.rule, held.action.fault)
        else:
            record.remove(held)


def main() -> None:
    """Watch until nothing is held, or until SIGTERM or SIGINT."""
    home, given, stop = start(MODULE, __doc__, "watched")
    watch(home, given.scope, given.watched, stop)


if __name__ == "__main__":
    sys.exit(main())
