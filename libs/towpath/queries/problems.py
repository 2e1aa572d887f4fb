"""Say what is wrong in a query text, and where."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.queries.tree import Place


class QueryTextError(TowpathError):
    """A place in a query text is wrong."""

    place: Place


def problem(
    place: Place, message: str, *, found: str | float | None = None, allowed: str | Sequence[str] = ()
) -> QueryTextError:
    """Return the error about a place in a query text: what was found there, and what could stand there."""
    error = QueryTextError(
        ErrorCode.INVALID,
        message,
        field=f"line {place.line}, column {place.column}",
        value=found,
        allowed=(allowed if isinstance(allowed, str) else [*allowed]) or None,
    )
    error.place = place
    return error
