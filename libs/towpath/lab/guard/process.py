"""The processes of a scope's guard: their names, where they keep their files, and how they start."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from threading import Event

from towpath.mesh.home import Home
from towpath.processes import ChildSpec, starting_command

_GUARD = "-guard"

HELD_SUFFIX = ".held.json"
"""Of the files of what is held, one for each scope."""


def guard_name(scope: str) -> str:
    """Return the process name of the guard of a scope."""
    return f"{scope}{_GUARD}"


def is_guard(process: str) -> bool:
    """Return true if a process of this name is the guard of some scope."""
    return process.endswith(_GUARD)


def held_path(home: Home, scope: str) -> Path:
    """Return the file of what the guard of a scope holds."""
    return home.faults / f"{scope}{HELD_SUFFIX}"


def progress_path(home: Home, scope: str) -> Path:
    """Return the file of how far the rules have come that a scope's guard carries out."""
    return home.faults / f"{scope}.progress.json"


def guard_spec(home: Home, scope: str) -> ChildSpec:
    """Return the guard of a scope as a process to start."""
    name = guard_name(scope)
    command = (sys.executable, "-m", "towpath.lab.guard", "--home", str(home.root), "--scope", scope)
    return ChildSpec(name=name, command=command, log=home.log(name))


def restart_command(home: Home, scope: str) -> list[str]:
    """Return the command that starts a guard in the place of one that died, unless another one runs."""
    return starting_command(guard_spec(home, scope), home.run, restarts=1)


def start(module: str, description: str | None, *more: str) -> tuple[Home, argparse.Namespace, Event]:
    """Read the options of a process of a scope, of which `more` are its own, and start its log.

    Return the mesh's home, the options, and what SIGTERM and SIGINT set.
    """
    options = argparse.ArgumentParser(module, description=description)
    for name in ("home", "scope", *more):
        options.add_argument(f"--{name}", required=True)
    given = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return Home(Path(given.home)), given, stop
