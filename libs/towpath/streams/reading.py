"""Say how a source gives a plan the events of one input: as typed columns, or whole.

A reading travels to Spark's Python workers as an option of the source. This module and those that decode
import nothing of pydantic, because every worker loads them when it starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SERIAL = "serial"
INPUT = "input"
"""Position of the input in the job."""
STORED_AT = "stored_at"

REASON = "reject reason"
"""Why the event goes to the dead letter; null for good events."""
TEXT = "event text"
"""The event as it came, where it is rejected or the plan may still reject it."""

VALUES = "event values"
KEY = "event key"
WINDOW = "event window"
COUNT = "event count"
"""Columns of a whole event: JSON objects as text, and a number. Towpath's own columns have a space in their
names. No field can have one, so they never collide."""

OPTION = "reading"
"""The source's option that holds a reading."""

WEIGHT = "event weight"
"""Number of events that an event stands for, where others are left out."""

_WHOLE = {VALUES: "string", KEY: "string", WINDOW: "string", COUNT: "long"}


@dataclass(frozen=True)
class Reading:
    """The form in which a plan gets the events of one input."""

    fields: Mapping[str, str] | None
    """Field → type (`string`, `long`, `double`, `boolean`, `timestamp`); None for whole events."""
    from_device: bool
    """Events are bare objects; others are results of a job, in its envelope."""
    position: int = 0
    """Position of the input in the job."""
    required: tuple[str, ...] = ()
    """An event that lacks one of these fields is rejected."""
    keeps_text: bool = False
    """Good events keep their text, too: the plan judges them as well."""
    form: Mapping[str, Any] | None = None
    """Form of the events, as in `contracts.event_formats`; None for JSON."""
    weighs: bool = False
    """Events have a weight, because some may be left out."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Reading:
        """Return the reading in a source's options."""
        document = json.loads(options[OPTION])
        return cls(**{**document, "required": tuple(document["required"])})

    def options(self) -> dict[str, str]:
        """Return the options of the source that hold this reading."""
        fields = None if self.fields is None else {name: str(kind) for name, kind in self.fields.items()}
        return {OPTION: json.dumps({**self.__dict__, "fields": fields})}

    def columns(self) -> dict[str, str]:
        """Return the columns that a decoder makes of an event: name → type."""
        return dict(_WHOLE if self.fields is None else self.fields)

    def schema(self) -> str:
        """Return all columns of the source as Spark writes them."""
        own = {SERIAL: "long", INPUT: "int", STORED_AT: "timestamp"}
        columns = {**own, **self.columns(), REASON: "string", TEXT: "string"}
        if self.weighs:
            columns[WEIGHT] = "double"
        return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
