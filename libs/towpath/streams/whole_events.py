"""Decode whole events: their JSON goes on as it came, with every digit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from towpath.streams.decoding import MALFORMED, NO_VALUES, NOT_AN_OBJECT, EventDecoder

_BLANK = b" \t\r\n"
_NULL = msgspec.Raw(b"null")


class _Object(msgspec.Struct):
    """Any JSON object: msgspec checks its members, and forgets them."""


class _Envelope(msgspec.Struct):
    """The result of an upstream job. Its members stay text."""

    values: msgspec.Raw
    key: msgspec.Raw = _NULL
    window: msgspec.Raw = _NULL
    count: msgspec.Raw = _NULL


_check = msgspec.json.Decoder(_Object).decode
_open = msgspec.json.Decoder(_Envelope).decode
_count = msgspec.json.Decoder(int).decode

_Parts = tuple[bytes | None, bytes | None, bytes | None, int | None]
_NOTHING: _Parts = (None, None, None, None)


class WholeEvents(EventDecoder):
    """Decodes events into the JSON of values, key and window, and the number of events they stand for."""

    def columns(self, events: Sequence[bytes], reasons: dict[int, str]) -> list[pa.Array]:
        """Return the four columns."""
        parts_of = _bare if self.reading.from_device else _enveloped
        rows: list[_Parts] = []
        for n, event in enumerate(events):
            parts: _Parts | str = _NOTHING if n in reasons else parts_of(event)
            if isinstance(parts, str):
                reasons[n], parts = parts, _NOTHING
            rows.append(parts)
        kinds = (pa.string(), pa.string(), pa.string(), pa.int64())
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(kinds)
        return [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]


def is_object(text: bytes) -> bool:
    """Tell if a text is one JSON object with nothing behind it."""
    try:
        _check(text)
    except MALFORMED:
        return False
    return True


def _bare(event: bytes) -> _Parts | str:
    return (event.strip(_BLANK), None, None, 1) if is_object(event) else NOT_AN_OBJECT


def _enveloped(event: bytes) -> _Parts | str:
    """Return the parts of an upstream result, or the fault of an event that is none."""
    try:
        envelope = _open(event)
    except MALFORMED:
        return NO_VALUES if is_object(event) else NOT_AN_OBJECT
    values = bytes(envelope.values)
    if not values.startswith(b"{"):
        return NO_VALUES
    key, window = _part(envelope.key), _part(envelope.window)
    for name, part in (("key", key), ("window", window)):
        if part is not None and not part.startswith(b"{"):
            return f"field '{name}': expected an object, as in every job's result"
    try:
        count = 1 if _part(envelope.count) is None else _count(envelope.count)
    except MALFORMED:
        count = -1
    return (values, key, window, count) if 0 <= count < 2**63 else "field 'count': expected a whole number"


def _part(raw: msgspec.Raw) -> bytes | None:
    return None if raw is _NULL or bytes(raw) == b"null" else bytes(raw)
