"""Read events of other forms than JSON: each becomes the JSON object that says the same.

Forms are those of `towpath.contracts.event_formats`. This module imports nothing of pydantic, because Spark's
Python workers load it.
"""

from __future__ import annotations

import csv
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

ToJson = Callable[[bytes], bytes]
"""Returns an event as a JSON object. Raises `Unreadable`."""

_ABSOLUTE_S = 2**28
"""A time of SenML below this is relative to now (RFC 8428, section 4.5.3)."""

_NO_NAME = re.compile(r"[^A-Za-z0-9_]")

_TYPES: dict[str, Any] = {"string": str, "timestamp": str, "long": int, "double": float, "boolean": bool}


class Unreadable(ValueError):
    """An event that does not have the form that its input says. The text is the reason."""


def to_json(form: Mapping[str, Any]) -> ToJson:
    """Return the function that makes JSON objects of events of a form."""
    match form["kind"]:
        case "csv":
            return _of_csv(form["columns"], form["delimiter"])
        case "binary":
            return _of_binary(form["layout"], form["columns"])
        case "senml":
            return _of_senml
        case unknown:
            raise ValueError(f"no form of events is called {unknown!r}")


def _of_csv(columns: Mapping[str, str], delimiter: str) -> ToJson:
    names = [*columns]
    members = [(f"field_{n}", _TYPES[kind] | None, None) for n, kind in enumerate(columns.values())]
    # Members have names of their own, because a field may be called like a keyword.
    rename = {f"field_{n}": name for n, name in enumerate(names)}
    row = msgspec.defstruct("Row", members, rename=rename, omit_defaults=True, gc=False)
    encode = msgspec.json.Encoder().encode

    def read(event: bytes) -> bytes:
        try:
            line = event.decode().strip("\r\n")
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8") from None
        cells = line.split(delimiter) if '"' not in line else _unquoted(line, delimiter)
        if len(cells) != len(names):
            raise Unreadable(f"expected {len(names)} values, got {len(cells)}")
        values = {name: cell for name, cell in zip(names, cells, strict=True) if cell}
        try:
            return encode(msgspec.convert(values, row, strict=False))
        except msgspec.ValidationError as error:
            raise Unreadable(_place(error)) from None

    return read


def _unquoted(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except (csv.Error, StopIteration) as error:
        raise Unreadable(f"not CSV: {error}") from None


def _place(error: msgspec.ValidationError) -> str:
    """Return the reason with the field that msgspec names as `$.field`."""
    reason, _, place = str(error).partition(" - at `$.")
    return f"field '{place.rstrip('`')}': {reason[:1].lower()}{reason[1:]}" if place else reason


def _of_binary(layout: str, columns: list[str]) -> ToJson:
    form = struct.Struct(layout)
    encode = msgspec.json.Encoder().encode

    def read(event: bytes) -> bytes:
        if len(event) != form.size:
            raise Unreadable(f"expected {form.size} bytes, got {len(event)}")
        values = [_text(value) if isinstance(value, bytes) else value for value in form.unpack(event)]
        return encode(dict(zip(columns, values, strict=True)))

    return read


def _text(value: bytes) -> str:
    return value.split(b"\0", 1)[0].decode(errors="replace")


class _Base(msgspec.Struct):
    """Base values, which hold from one record of a SenML pack on (RFC 8428, section 4.1)."""

    bn: str = ""
    bt: float = 0.0
    bv: int | float = 0
    bs: int | float = 0


class _Record(msgspec.Struct, rename={"string": "vs", "truth": "vb", "data": "vd", "total": "s"}):
    """One record of a SenML pack."""

    bn: str | None = None
    bt: float | None = None
    bv: int | float | None = None
    bs: int | float | None = None
    n: str = ""
    t: float = 0.0
    v: int | float | None = None
    string: str | None = None
    truth: bool | None = None
    data: str | None = None
    total: int | float | None = None


_pack = msgspec.json.Decoder(list[_Record]).decode


def _of_senml(event: bytes) -> bytes:
    try:
        records = _pack(event)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Unreadable(f"no SenML pack: {error}") from None
    base, fields, newest = _Base(), {}, 0.0
    for record in records:
        if record.bn not in (None, base.bn) and fields:
            raise Unreadable(f"values of two devices in one pack: {base.bn!r} and {record.bn!r}")
        for name in base.__struct_fields__:
            if (told := getattr(record, name)) is not None:
                setattr(base, name, told)
        newest = max(newest, base.bt + record.t)
        value = _value(record, base)
        if value is None:
            continue
        name = _NO_NAME.sub("_", record.n) or "value"
        name = f"_{name}" if name[0].isdigit() else name
        if name in fields:
            raise Unreadable(f"two values of {name!r} in one pack")
        fields[name] = value
    own = {"device": base.bn} if base.bn else {}
    if newest >= _ABSOLUTE_S:
        try:
            own["time"] = datetime.fromtimestamp(newest, UTC).isoformat()
        except (ValueError, OverflowError, OSError) as error:
            raise Unreadable(f"no time in seconds: {error}") from None
    if taken := own.keys() & fields.keys():
        raise Unreadable(f"a value has the name {taken.pop()!r}, which the pack's own has")
    return msgspec.json.encode({**own, **fields})


def _value(record: _Record, base: _Base) -> Any:
    """Return the value of a record: a number with its base, or another kind; None if it has none."""
    try:
        if record.v is not None:
            return base.bv + record.v
        if record.total is not None:
            return base.bs + record.total
    except OverflowError as error:
        raise Unreadable(f"{record.n!r}: {error}") from None
    others = (record.string, record.truth, record.data)
    return next((value for value in others if value is not None), None)
