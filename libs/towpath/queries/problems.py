"""Say what is wrong in a query text, and where."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.queries.tree import Place


def problem(
    place: Place, message: str, *, found: str | float | None = None, allowed: str | Sequence[str] = ()
) -> TowpathError:
    """Return the error about a place in a query text: what was found there, and what could stand there."""
    return TowpathError(
        ErrorCode.INVALID,
        message,
        field=f"line {place.line}, column {place.column}",
        value=found,
        allowed=(allowed if isinstance(allowed, str) else [*allowed]) or None,
    )
