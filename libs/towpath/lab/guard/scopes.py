"""The name of a scope's guard, and where it keeps its things."""

from __future__ import annotations

from pathlib import Path

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
