"""Choose the directory of jobs' user code: as asked for, as the mesh has it, or the working directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.mesh.home import Home
from towpath.mesh.state import MeshState

ArtefactRoot = Annotated[
    Path | None,
    typer.Option(
        "--artefact-root",
        metavar="DIR",
        help="Directory that jobs' user code must lie in.",
        show_default="as it was, at first the present directory",
    ),
]


def chosen_artefact_root(home: Home, named: str | None, wanted: Path | None) -> str | None:
    """Return the directory asked for, or named in the mesh's file, or the working directory for a new mesh.

    None: as it was, or the mesh's own directory for a new one. Raises `TowpathError` when there is no such
    directory.
    """
    if wanted is not None:
        return _existing(wanted)
    if named is not None or home.state.exists():
        return named
    return _present()


def container_artefact_root(home: Home, wanted: Path | None) -> str | None:
    """Return the same for a mesh of containers.

    Its coordinator sees nothing of this machine but that directory. A mesh without one gets the working
    directory. None: the working directory holds the user's whole home. Raises `TowpathError`.
    """
    if wanted is not None:
        return _existing(wanted)
    kept = MeshState.load(home).spec.artefact_root if home.state.exists() else None
    return kept or _present()


def _existing(wanted: Path) -> str:
    if not wanted.is_dir():
        raise TowpathError(ErrorCode.INVALID, "no such directory", field="artefact-root", value=str(wanted))
    return str(wanted.resolve())


def _present() -> str | None:
    present = Path.cwd()
    return None if Path.home().is_relative_to(present) else str(present)
