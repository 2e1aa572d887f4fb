"""The one directory from which user code may come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError

FIELD = "operator.artefact"


def resolve_inside(root: Path, named: str, called: Path | None = None) -> Path:
    """Return the real path of an artefact, absolute or relative to `root`. `..` and links must stay inside.

    Errors name the root as `called` if that is given: in a container, people know it by another path.
    Raises `TowpathError`: not allowed if it is outside or unreadable, invalid if it does not exist.
    """
    real_root, known_as = root.resolve(), called or root.resolve()
    below = Path(named)
    if below.is_relative_to(known_as):
        below = below.relative_to(known_as)
    path = (real_root / below).resolve()
    if not path.is_relative_to(real_root):
        raise outside(known_as, named)
    try:
        is_there = path.exists()
    except PermissionError as error:
        raise TowpathError(
            ErrorCode.NOT_ALLOWED,
            "the coordinator may not read this file",
            field=FIELD,
            value=named,
            allowed="a file that all users of the machine may read",
        ) from error
    if not is_there:
        raise TowpathError(
            ErrorCode.INVALID,
            "no such file or directory",
            field=FIELD,
            value=named,
            allowed=f"a wheel, a zip or a directory in {known_as}",
        )
    return path


def as_called(error: TowpathError, root: Path, called: Path | None) -> TowpathError:
    """Return the same refusal, with paths as people know them who call the root `called`."""
    if called is None:
        return error
    known: dict[str, Any] = {
        key: text.replace(str(root.resolve()), str(called))
        for key in ("value", "allowed")
        if isinstance(text := getattr(error.detail, key), str)
    }
    return TowpathError.of(error.detail.model_copy(update=known))


def outside(root: Path, named: str) -> TowpathError:
    """Return the refusal of code from outside of the root."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        "user code must be in the artefact root",
        field=FIELD,
        value=named,
        allowed=f"a path in {root.resolve()}; --artefact-root DIR of the command that brought the mesh up "
        "(`up`, `compose`, `fog up`) names another root",
    )
