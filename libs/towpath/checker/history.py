"""What came, or what was fed in, as columns: a million results in a few hundred megabytes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from towpath.checker.columns import Column, Table
from towpath.checker.files import bad_line
from towpath.checker.records import PLAIN, Marks, Record, read_record
from towpath.contracts.errors import TowpathError

Line = tuple[int, bytes]
"""Number of a line, or of a message, and its text."""

NEVER = -1
"""Epoch and offset of what has none."""


class History:
    """Records in the order in which they came, with what is known about each."""

    def __init__(self, source: str, fields: Sequence[str] | None = None, beside: Sequence[str] = ()) -> None:
        """`source` is named in examples. `fields`, `beside`: what to keep, see `Table`."""
        self.source = source
        self.table = Table(fields, beside)
        self.fields: list[str] = []
        """What the first record has, read or not: to say what may be asked for."""
        self.lines = array("q")
        self.payloads = array("q")
        """A hash of each text: two copies are the same message only if these are equal."""
        self.readable = bytearray()
        """0 where the text is no JSON object: its fields are all missing."""
        self.epochs, self.offsets = array("q"), array("q")
        self.received_at, self.stored_at = array("d"), array("d")
        """Unix seconds; NaN where not known."""
        self.connections = array("q")
        self.dups = bytearray()
        """1 where the broker said that it had sent this before."""
        self.subscribers, self.jobs = Column(), Column()

    def __len__(self) -> int:
        return len(self.lines)

    def append(self, record: Record | None, line: int, payload: bytes) -> None:
        """Take the next record; None for a text that is none."""
        held = record if record is not None else _UNREADABLE
        if not self.fields:
            self.fields = sorted({*held.own, *held.beside})
        self.table.append(held.own, held.beside)
        self.lines.append(line)
        self.payloads.append(hash(held.text if held.text is not None else payload))
        self.readable.append(record is not None and record.trouble is None)
        self.epochs.append(NEVER if held.epoch is None else held.epoch)
        self.offsets.append(NEVER if held.offset is None else held.offset)
        self.received_at.append(math.nan if held.received_at is None else held.received_at)
        self.stored_at.append(math.nan if held.stored_at is None else held.stored_at)
        self.connections.append(held.connection)
        self.dups.append(held.dup)
        self.subscribers.append(held.subscriber)
        self.jobs.append(held.job)

    def column(self, name: str) -> Column:
        """A field. Raises `TowpathError` (invalid) if no record has it."""
        if not self.table.has(name):
            raise bad_line(
                self.source,
                self.lines[0] if len(self) else 1,
                "no line has this field",
                field=name,
                value="nothing",
                allowed=", ".join(self.fields) or "a field of the file",
            )
        return self.table.columns[name]

    def invalid(self, row: int, name: str, allowed: str) -> TowpathError:
        """What to raise for a value that cannot be used."""
        value = self.table.columns[name][row]
        return bad_line(
            self.source, self.lines[row], "not usable", field=name, value=repr(value), allowed=allowed
        )


_UNREADABLE = Record({})


def results_of(
    lines: Iterable[Line],
    source: str,
    fields: Sequence[str] | None = None,
    marks: Marks = PLAIN,
    *,
    beside: Sequence[str] = (),
    identified: bool = False,
) -> History:
    """The history of results. A line that is no JSON object is kept, as one that nobody can read."""
    history = History(source, fields, beside)
    for number, text in lines:
        try:
            record = read_record(text, marks, identified=identified)
        except ValueError:
            record = None
        history.append(record, number, text)
    return history


def inputs_of(
    lines: Iterable[Line],
    source: str,
    fields: Sequence[str] | None = None,
    *,
    beside: Sequence[str] = (),
    field: str = "input",
    identified: bool = False,
) -> History:
    """The history of what was fed in, or should have come out. Raises `TowpathError` (invalid) naming the
    line that is no JSON object; `field` is what the user calls the file."""
    history = History(source, fields, beside)
    for number, text in lines:
        try:
            record = read_record(text, identified=identified)
            if record.trouble is not None:
                raise ValueError(record.trouble)
        except ValueError as error:
            problem = f"not a JSON object: {error}"
            shown = text[:80].decode(errors="replace")
            raise bad_line(
                source, number, problem, field=field, value=shown, allowed="one JSON object a line"
            ) from error
        history.append(record, number, b"")
    return history


def longs(values: array[int]) -> np.ndarray:
    """The numbers as a view."""
    return np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, np.int64)


def doubles(values: array[float]) -> np.ndarray:
    """The numbers as a view."""
    return np.frombuffer(values, dtype=np.float64) if values else np.zeros(0, np.float64)
