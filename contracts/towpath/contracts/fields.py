"""The fields of events: their names and types, and the base of operators that may be steps of a chain."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import StringConstraints

from towpath.contracts.message import NAME_PATTERN, Model

FieldName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]

RESERVED_FIELDS = frozenset({"serial", "input", "stored_at", "topic"})
"""Columns the source adds; an event's own field cannot have these names."""

EntryName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
"""User code: `package.module:name`."""


class FieldType(StrEnum):
    """JSON types as Spark reads them. A timestamp is ISO 8601; without a zone it is UTC."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"


Fields = dict[FieldName, FieldType]
"""The fields an operator reads from each event, with their types."""


def own_names(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields. Raises `ValueError` if one has the name of a column that every event has."""
    taken = sorted(RESERVED_FIELDS & fields.keys())
    if taken:
        raise ValueError(f"{', '.join(taken)} are columns of every event; name the field otherwise")
    return fields


StepName = Annotated[str, StringConstraints(pattern=NAME_PATTERN)]


class StepModel(Model):
    """The base of operators that may be steps of a chain."""

    name: StepName | None = None
    """Only in a chain: the name of the step in counts and rejected events. Its kind unless given."""
