"""The one directory that user code may come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError

FIELD = "operator.artefact"


def resolve_inside(root: Path, named: str, called: Path | None = None) -> Path:
    """The real path of an artefact, absolute or relative to `root`; neither `..` nor links lead out of it.

    People know the root as `called`, if that is another path: it was put into a container.
    Raises `TowpathError` (not allowed, also when it may not be read, or invalid when it is not there), naming
    the root.
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
            "the coordinator may not read it",
            field=FIELD,
            value=named,
            allowed="what all users of the machine may read",
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
    """The same refusal, with paths as people know them who call the root so."""
    if called is None:
        return error
    known: dict[str, Any] = {
        key: text.replace(str(root.resolve()), str(called))
        for key in ("value", "allowed")
        if isinstance(text := getattr(error.detail, key), str)
    }
    return TowpathError.of(error.detail.model_copy(update=known))


def outside(root: Path, named: str) -> TowpathError:
    """The refusal of code from elsewhere."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        "user code must lie in the artefact root",
        field=FIELD,
        value=named,
        allowed=f"a path in {root.resolve()}; --artefact-root DIR of the command that brought the mesh up "
        "(`up`, `compose`, `fog up`) names another root",
    )
