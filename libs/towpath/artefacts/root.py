"""The one directory that user code may come from."""

from __future__ import annotations

from pathlib import Path

from towpath.contracts.errors import ErrorCode, TowpathError

FIELD = "operator.artefact"


def resolve_inside(root: Path, named: str) -> Path:
    """The real path of an artefact, absolute or relative to `root`; neither `..` nor links lead out of it.

    Raises `TowpathError` (not allowed, or invalid when nothing is there), naming the root.
    """
    real_root = root.resolve()
    path = (real_root / named).resolve()
    if not path.is_relative_to(real_root):
        raise outside(root, named)
    if not path.exists():
        raise TowpathError(
            ErrorCode.INVALID,
            "no such file or directory",
            field=FIELD,
            value=named,
            allowed=f"a wheel, a zip or a directory in {real_root}",
        )
    return path


def outside(root: Path, named: str) -> TowpathError:
    """The refusal of code from elsewhere."""
    return TowpathError(
        ErrorCode.NOT_ALLOWED,
        "user code must lie in the artefact root",
        field=FIELD,
        value=named,
        allowed=f"a path in {root.resolve()}; `towpath up --artefact-root DIR` names another root",
    )
