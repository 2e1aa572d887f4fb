"""Files of events and results: JSON lines, or CSV with a header; each also packed with gzip."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from towpath.contracts.errors import ErrorCode, TowpathError

NUMBER = re.compile(r"-?(?=\.?\d)(0|[1-9]\d*)?(\.\d*([eE][+-]?\d+)?|[eE][+-]\d+)?", re.ASCII)
"""A number as programs write it. Other digits are text: `02139` is a code, and `12e4` an id."""

ALLOWED = "JSON lines (.jsonl), or CSV with a header line (.csv); both also as .gz"


def lines_of(path: Path, field: str) -> Iterator[tuple[int, bytes]]:
    """Yield number (from 1) and JSON text of every line that is not empty.

    `field` is the user's name for the file. Rows of CSV become JSON objects: numbers are numbers, an empty
    cell is null. Raises `TowpathError` (invalid) when the file cannot be read.
    """
    try:
        with _opened(path) as file:
            if ".csv" in path.suffixes[-2:]:
                yield from _rows(file, path, field)
            else:
                for number, line in enumerate(file, start=1):
                    if not line.isspace():
                        yield number, line.rstrip(b"\r\n")
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        raise TowpathError(
            ErrorCode.INVALID, f"not readable: {error}", field=field, value=str(path), allowed=ALLOWED
        ) from error


def bad_line(
    path: Path | str, number: int, problem: str, *, field: str, value: object, allowed: str
) -> TowpathError:
    """Return the error for a line that cannot be used."""
    return TowpathError(
        ErrorCode.INVALID,
        f"{path}: line {number}: {problem}",
        field=field,
        value=str(value)[:80],
        allowed=allowed,
    )


def _opened(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")  # type: ignore[return-value]


def _rows(file: IO[bytes], path: Path, field: str) -> Iterator[tuple[int, bytes]]:
    reader = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""))
    names = next(reader, [])
    for row in reader:
        if not row:
            continue
        if len(row) != len(names):
            problem = f"{len(row)} cells, and {len(names)} in the header"
            raise bad_line(path, reader.line_num, problem, field=field, value=",".join(row), allowed=ALLOWED)
        cells = {name: _cell(text) for name, text in zip(names, row, strict=True)}
        yield reader.line_num, json.dumps(cells).encode()


def _cell(text: str) -> str | int | float | None:
    """Return a number if the cell has one, see `NUMBER`."""
    if not text:
        return None
    if NUMBER.fullmatch(text) is None or not math.isfinite(number := float(text)):
        return text
    return int(text) if text.lstrip("-").isdigit() else number
