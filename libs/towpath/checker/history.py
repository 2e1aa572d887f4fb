"""Received results, or events fed in, as columns: a million in a few hundred megabytes."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.columns import CodedColumn, Table, combined
from towpath.checker.files import bad_line
from towpath.checker.identity import RESULT, utc
from towpath.checker.moments import TimeUnit, microseconds
from towpath.checker.observation import ReceivedMessage, values_of
from towpath.checker.records import PLAIN, Delivery, Marks, read_record
from towpath.contracts.errors import TowpathError

Line = tuple[int, bytes]
"""Number of a line, or of a message, and its text."""

NEVER = -1
"""Epoch and offset of a record that has none."""


class History:
    """Records in the order in which they came, with the circumstances of each."""

    def __init__(self, source: str, fields: Sequence[str] | None = None, beside: Sequence[str] = ()) -> None:
        """`source` is named in examples. `fields` and `beside` are kept, see `Table`."""
        self.source = source
        self.table = Table(fields, beside)
        self.fields: list[str] = []
        """All fields of the first record: error messages list them."""
        self.lines = array("q")
        self.payloads = array("q")
        """Hashes of the texts: two copies are the same message only if these are equal."""
        self.readable = bytearray()
        """0 where the text is no JSON object: its fields are all missing."""
        self.epochs, self.offsets = array("q"), array("q")
        self.received_at, self.stored_at = array("d"), array("d")
        """Unix seconds; NaN if not known."""
        self.connections = array("q")
        self.dups = bytearray()
        """1 where the broker set its DUP flag: it had sent this before."""
        self.subscribers, self.jobs = CodedColumn(), CodedColumn()

    def __len__(self) -> int:
        return len(self.lines)

    def append(self, record: Delivery | None, line: int, payload: bytes) -> None:
        """Add the next record; None for a text that is no record."""
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

    def column(self, name: str) -> CodedColumn:
        """Return a field. Raises `TowpathError` (invalid) if no record has it."""
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

    def present(self, name: str) -> np.ndarray:
        """Return True for each record that has a value in the field."""
        return self.column(name).array() != 0

    def alike(self, fields: Sequence[str]) -> np.ndarray:
        """Return a number for each record: equal where all the fields are."""
        columns = [self.column(name) for name in fields]
        return combined([c.array() for c in columns], [len(c.values) for c in columns], len(self))

    def moments(self, name: str, unit: TimeUnit) -> np.ndarray:
        """Return times in microseconds since 1970; 0 where there is none. Raises `TowpathError` (invalid)."""
        allowed = f"ISO 8601, or a number of {unit}"
        return np.array(self._read(name, lambda value: microseconds(value, unit), allowed), np.int64)[
            self.column(name).array()
        ]

    def serials(self, name: str) -> np.ndarray:
        """Return whole numbers. Raises `TowpathError` (invalid) for a record that has none."""
        values = self._read(name, lambda value: value if type(value) is int else None, "a whole number")
        without = np.flatnonzero(~self.present(name))
        if len(without):
            raise self._invalid(int(without[0]), name, "a whole number")
        return np.array(values, np.int64)[self.column(name).array()]

    def numbers(self, name: str) -> pd.Series:
        """Return numbers; missing where there is none. Whole ones stay whole. Raises `TowpathError`."""
        values = self._read(name, _number, "a number")
        codes = self.column(name).array()
        if all(isinstance(value, int) and abs(value) < _EXACT for value in values):
            return pd.Series(pd.arrays.IntegerArray(np.array(values, np.int64)[codes], codes == 0))
        return pd.Series(np.array([math.nan, *values[1:]], np.float64)[codes])

    def _read(self, name: str, read: Callable[[Any], Any], allowed: str) -> list[Any]:
        """Return, for each code, the value as read; 0 for a missing one.

        Raises `TowpathError` for a value that `read` turns into None.
        """
        column = self.column(name)
        values = [0, *map(read, column.values[1:])]
        bad = [code for code, value in enumerate(values) if value is None]
        if bad:
            raise self._invalid(int(np.flatnonzero(np.isin(column.array(), bad))[0]), name, allowed)
        return values

    def _invalid(self, row: int, name: str, allowed: str) -> TowpathError:
        value = repr(self.table.columns[name][row])
        return bad_line(self.source, self.lines[row], "not usable", field=name, value=value, allowed=allowed)


_UNREADABLE = Delivery({})
_EXACT = 2**53
"""Below it, a floating-point number can be any whole one."""


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def results_of(
    lines: Iterable[Line],
    source: str,
    fields: Sequence[str] | None = None,
    marks: Marks = PLAIN,
    *,
    beside: Sequence[str] = (),
    identified: bool = False,
) -> History:
    """Return the history of results. A line that is no JSON object is kept as an unreadable one."""
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
    """Return the history of events that were fed in, or of results that should have come.

    Raises `TowpathError` (invalid) for a line that is no JSON object. `field` is the user's name for the
    file.
    """
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


def observed(
    observations: Iterable[ReceivedMessage],
    compared: Callable[[Mapping[str, Any]], Mapping[str, Any]] = values_of,
) -> History:
    """Return the history of observations; each is known by its identity."""
    history = History("", None, (RESULT,))
    for number, seen in enumerate(observations, start=1):
        delivery = Delivery(
            {},
            {RESULT: seen.identity},
            offset=seen.offset,
            received_at=seen.received_at,
            connection=seen.connection,
            dup=seen.dup,
            subscriber=seen.subscriber,
        )
        body = seen.body
        if body:
            delivery.own = compared(body)
            delivery.job, delivery.epoch = body.get("job"), body.get("epoch")
            delivery.stored_at = utc(body["stored_at"]).timestamp()
        history.append(delivery, number, seen.payload)
    return history


def longs(values: array[int]) -> np.ndarray:
    """Return the numbers as a view."""
    return np.frombuffer(values, dtype=np.int64) if values else np.zeros(0, np.int64)


def doubles(values: array[float]) -> np.ndarray:
    """Return the numbers as a view."""
    return np.frombuffer(values, dtype=np.float64) if values else np.zeros(0, np.float64)
