"""Compare two descriptions of a job, field by field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from towpath.contracts.pipeline import FieldDifference

SHORT = 60
"""Most characters of a value in a sentence. A longer value is cut."""


class Absent:
    """Stands for a value that is not there."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


@dataclass(frozen=True)
class FieldChange:
    """A field that differs."""

    path: str
    """For example `operator.fields.delay` or `inputs[1].topic`."""
    old: Any
    """`ABSENT` where the field is new."""
    new: Any
    """`ABSENT` where the field is gone."""

    def __str__(self) -> str:
        return f"{self.path}: {short(self.old)} → {short(self.new)}"

    def as_told(self) -> FieldDifference:
        """Return the change as it crosses the wire: uncut, with null for an absent value."""
        old, new = (None if isinstance(value, Absent) else value for value in (self.old, self.new))
        return FieldDifference(field=self.path, old=old, new=new)


def short(value: Any) -> str:
    """Return a value as JSON, cut where it is long."""
    text = repr(value) if isinstance(value, Absent) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHORT else f"{text[: SHORT - 1]}…"


def field_changes(old: BaseModel, new: BaseModel) -> list[FieldChange]:
    """Return all fields that differ, in the order of their declaration."""
    return [*_compared("", old.model_dump(mode="json"), new.model_dump(mode="json"))]


def _compared(path: str, old: Any, new: Any) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            inner = f"{path}.{key}" if path else str(key)
            yield from _compared(inner, old.get(key, ABSENT), new.get(key, ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        for position in range(max(len(old), len(new))):
            yield from _compared(f"{path}[{position}]", _at(old, position), _at(new, position))
    elif type(old) is not type(new) or old != new:
        yield FieldChange(path, old, new)


def _at(values: list[Any], position: int) -> Any:
    return values[position] if position < len(values) else ABSENT
