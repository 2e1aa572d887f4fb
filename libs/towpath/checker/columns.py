"""A table whose cells are small integers: each value of a field is kept once, however many rows have it."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

ABSENT = -1
"""Code of a value that another column does not have."""

_LARGEST = 2**62


class CodedColumn:
    """One field of many rows.

    A missing value is None, and so is NaN. Objects and lists are equal if their JSON texts are. `1` and `1.0`
    are one value; true and 1 are two.
    """

    __slots__ = ("_known", "codes", "values")

    def __init__(self, rows: int = 0) -> None:
        """Make a column of `rows` rows without a value."""
        self.codes = array("i", bytes(4 * rows))
        self.values: list[Any] = [None]
        """Code → value; 0 is None."""
        self._known: dict[Any, int] = {None: 0}

    @classmethod
    def of(cls, values: Iterable[Any]) -> CodedColumn:
        """Make a column with these values, one for each row."""
        column = cls()
        for value in values:
            column.append(value)
        return column

    def append(self, value: Any) -> None:
        """Add a row."""
        kind = type(value)
        if kind is str or kind is int:
            known = value
        else:
            value, known = _scalar(value)
        code = self._known.get(known)
        if code is None:
            code = self._known[known] = len(self.values)
            self.values.append(value)
        self.codes.append(code)

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, row: int) -> Any:
        return self.values[self.codes[row]]

    def array(self) -> np.ndarray:
        """Return the codes of all rows, as a view."""
        return np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.zeros(0, np.int32)

    def coded(self, codes: np.ndarray) -> CodedColumn:
        """Return a column with these codes. The values are shared."""
        chosen = CodedColumn.__new__(CodedColumn)
        chosen.codes = array("i", codes.astype(np.int32).tobytes())
        chosen.values, chosen._known = self.values, self._known
        return chosen

    def selected(self, rows: np.ndarray) -> CodedColumn:
        """Return the column at these rows. The values are shared."""
        return self.coded(self.array()[rows])

    def mapped(self, function: Callable[[Any], Any]) -> CodedColumn:
        """Replace every value. `function` is called once for each different one."""
        codes = CodedColumn.of(function(value) for value in self.values)
        codes.codes = array("i", codes.array()[self.array()].tobytes())
        return codes

    def codes_in(self, other: CodedColumn) -> np.ndarray:
        """Return, for each row, the code that `other` has for its value, or `ABSENT`."""
        known = other._known
        translation = [known.get(_scalar(value)[1], ABSENT) for value in self.values]
        return np.asarray(translation, dtype=np.int64)[self.array()]


def _scalar(value: Any) -> tuple[Any, Any]:
    """Return the value, and a key that equal values share."""
    if isinstance(value, bool):
        return value, (bool, value)
    if isinstance(value, float) and math.isnan(value):
        return None, None
    if isinstance(value, dict | list):
        text = json.dumps(value, sort_keys=True)
        return value, (dict, text)
    return value, value


class Table:
    """Columns of equal length. A field that appears late is missing in the rows before."""

    def __init__(self, fields: Sequence[str] | None = None, beside: Sequence[str] = ()) -> None:
        """Keep only these fields. If None, keep all of a row's own fields, and those in `beside`."""
        self._all = fields is None
        self._beside = tuple(beside)
        self.columns: dict[str, CodedColumn] = {name: CodedColumn() for name in (*(fields or ()), *beside)}
        self.rows = 0

    def append(self, own: Mapping[str, Any], beside: Mapping[str, Any]) -> None:
        """Add a row. Fields `beside` its own ones count only if they are asked for by name."""
        if self._all:
            held = {name: beside[name] for name in self._beside if name in beside}
            self._append_all({**held, **own} if held else own)
        else:
            for name, column in self.columns.items():
                column.append(own[name] if name in own else beside.get(name))
        self.rows += 1

    def _append_all(self, own: Mapping[str, Any]) -> None:
        columns = self.columns
        for name, value in own.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = CodedColumn(self.rows)
            column.append(value)
        if len(own) != len(columns):
            for column in columns.values():
                if len(column) == self.rows:
                    column.append(None)

    def has(self, name: str) -> bool:
        """Tell if any row has a value in the field."""
        return name in self.columns and len(self.columns[name].values) > 1

    def present(self) -> list[str]:
        """Return the fields in which any row has a value, in order."""
        return sorted(name for name in self.columns if self.has(name))


def combined(codes: Sequence[np.ndarray], sizes: Sequence[int], rows: int) -> np.ndarray:
    """Return one number for each row: equal where all codes are equal, negative where one is `ABSENT`.

    `sizes` are the numbers of possible codes. Compare the result within one call only.
    """
    together, size = np.zeros(rows, np.int64), 1
    missing = np.zeros(rows, bool)
    for part, count in zip(codes, sizes, strict=True):
        if size * (count + 1) > _LARGEST:
            together, distinct = pd.factorize(together)
            size = len(distinct) + 1
        missing |= part < 0
        together = together * count + part
        size *= count
    return np.where(missing, ABSENT, together)
