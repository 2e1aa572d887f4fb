"""Which scope a process belongs to, by its name, and where the guard of a scope keeps its things."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.faults import HUB_SCOPE
from towpath.mesh.home import Home

_GUARD = "-guard"

HELD_SUFFIX = ".held.json"
"""Of the files of what is held, one a scope."""


def guard_name(scope: str) -> str:
    """The process name of the guard of a scope."""
    return f"{scope}{_GUARD}"


def is_guard(process: str) -> bool:
    """Whether a process of this name is the guard of some scope."""
    return process.endswith(_GUARD)


def held_path(home: Home, scope: str) -> Path:
    """What the guard of a scope holds at the moment."""
    return home.faults / f"{scope}{HELD_SUFFIX}"


def progress_path(home: Home, scope: str) -> Path:
    """How far the rules have come that a scope's guard carries out."""
    return home.faults / f"{scope}.progress.json"


def scope_of(home: Home, process: str) -> str:
    """The site whose name the process's begins with, or `hub`. Of two such sites the longer name counts."""
    sites = (path.name for path in (home.root / "sites").glob("*"))
    fitting = [site for site in sites if process.startswith(f"{site}-")]
    return max(fitting, key=len, default=HUB_SCOPE)
