"""The condition of a filter: an expression of CEL, the Common Expression Language, over an event's fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from towpath.checker.files import bad_line
from towpath.checker.history import History
from towpath.expressions import ALLOWED, compiled, is_bound

_FAILURES = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)


def holding(text: str, events: History) -> np.ndarray:
    """Return the rows of the events for which the condition holds.

    It does not hold where a missing value leaves it undecided. Raises `TowpathError` (invalid) for a text
    that is no condition, for a field that no event has, and for an event whose values do not fit.
    """
    program = compiled(text, "where")
    read = [path for name in program.variables() for path in _paths(name, text, events)]
    columns = {path: events.column(path) for path in read}
    nested = any("." in path for path in read)
    kept: list[int] = []
    for row in range(len(events)):
        fields = {path: column[row] for path, column in columns.items()}
        try:
            holds = program.execute(_nested(fields) if nested else fields)
            if not isinstance(holds, bool):
                raise TypeError(f"it is {holds!r}, neither true nor false")
        except _FAILURES as error:
            if None in fields.values():
                continue
            problem = f"the condition cannot be computed: {error}"
            line = events.lines[row]
            raise bad_line(
                events.source, line, problem, field="where", value=fields, allowed=ALLOWED
            ) from error
        if holds:
            kept.append(row)
    return np.array(kept, np.int64)


def _paths(name: str, text: str, events: History) -> list[str]:
    """Return the fields that a variable stands for. Fields of an object in an event have names with dots."""
    within = [field for field in events.table.columns if field.startswith(f"{name}.")]
    if within or is_bound(name, text):
        return within
    return [name]


def _nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Make objects inside objects from names with dots. A missing value is left out, as in the event."""
    nested: dict[str, Any] = {}
    for path, value in fields.items():
        *outer, name = path.split(".")
        place = nested
        for part in outer:
            place = place.setdefault(part, {})
        place[name] = value
    return nested
