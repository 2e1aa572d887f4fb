"""Decode events to typed columns: strictly, by declared types, with the reason where an event does not fit.

msgspec decodes a whole event into a struct that is made from the declared fields. An event that does not fit
is decoded a second time, field by field, for its reason. `_judged` therefore defines what fits; the struct is
the fast way to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from towpath.streams.decoding import MALFORMED, NO_VALUES, NOT_AN_OBJECT, TIMESTAMP, EventDecoder
from towpath.streams.event_times import micros_of, times_of
from towpath.streams.reading import Reading

_SHOWN = 100
"""Characters of a value that a reason shows."""

_LARGEST = 1.7976931348623157e308


@dataclass(frozen=True)
class _Type:
    """The decoding of a declared type."""

    decoded: Any
    """The type that msgspec decodes."""
    column: pa.DataType
    expected: str


_TYPES: dict[str, _Type] = {
    "string": _Type(str, pa.string(), "a string"),
    "long": _Type(
        Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
        pa.int64(),
        "an integer of at most 64 bits",
    ),
    "double": _Type(
        Annotated[float, msgspec.Meta(ge=-_LARGEST, le=_LARGEST)], pa.float64(), "a finite number"
    ),
    "boolean": _Type(bool, pa.bool_(), "true or false"),
    "timestamp": _Type(str, TIMESTAMP, "an ISO 8601 time"),
}

_OF_ENVELOPE = {"window_start": ("window", "start"), "window_end": ("window", "end"), "count": ("count",)}
"""Fields that an upstream result has beside its values and key, and where."""

_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class TypedEvents(EventDecoder):
    """Decodes events into columns of the declared fields.

    A field of an upstream result is looked up in its `values`, then in its `key`. `window_start`,
    `window_end` and `count` are looked up in its envelope, too. The first place with a value counts.
    """

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        assert reading.fields is not None
        self._fields = {name: _TYPES[kind] for name, kind in reading.fields.items()}
        self._attributes = [f"field_{n}" for n in range(len(self._fields))]
        self._judges = {
            name: (_time if kind.column is TIMESTAMP else msgspec.json.Decoder(kind.decoded).decode)
            for name, kind in self._fields.items()
        }
        # Attributes have names of their own, because a field may be called like a keyword.
        by_name = dict(zip(self._attributes, self._fields, strict=True))
        members = [
            (attribute, self._fields[name].decoded | None, None) for attribute, name in by_name.items()
        ]
        self._members = msgspec.defstruct("Members", members, rename=by_name, gc=False)
        self._empty = self._members()
        self._decode = self._decoder()

    def columns(self, events: Sequence[bytes], reasons: dict[int, str]) -> list[pa.Array]:
        """Return a column for each field."""
        rows = self._rows(events, reasons)
        columns = []
        for attribute, kind in zip(self._attributes, self._fields.values(), strict=True):
            values = [getattr(row, attribute) for row in rows]
            if kind.column is not TIMESTAMP:
                columns.append(pa.array(values, kind.column))
                continue
            column = times_of(values)
            if column.null_count > values.count(None):
                for n, (value, is_time) in enumerate(zip(values, column.is_valid().to_pylist(), strict=True)):
                    if value is not None and not is_time and n not in reasons:
                        reasons[n] = self._reason(events[n])
            columns.append(column)
        self._miss(columns, reasons)
        return columns

    def values(self, events: Sequence[bytes]) -> list[tuple[Any, ...]]:
        """Return the values of the fields of each event; all None for one that does not fit.

        Times are texts as they were written.
        """
        read = attrgetter(*self._attributes)
        rows = self._rows(events, {})
        return [(read(row),) for row in rows] if len(self._attributes) == 1 else [read(row) for row in rows]

    def _rows(self, events: Sequence[bytes], reasons: dict[int, str]) -> list[Any]:
        """Return the members of each event; none of them has a value where there is a reason."""
        try:
            rows = [self._decode(event) for event in events]
        except MALFORMED:
            return [
                self._empty if n in reasons else self._row(event, n, reasons)
                for n, event in enumerate(events)
            ]
        for n in reasons:
            rows[n] = self._empty
        return rows

    def _row(self, event: bytes, place: int, reasons: dict[int, str]) -> Any:
        try:
            return self._decode(event)
        except MALFORMED:
            members, reason = self._judged(event)
            if reason is not None:
                reasons[place] = reason
            return members

    def _miss(self, columns: list[pa.Array], reasons: dict[int, str]) -> None:
        """Reject events that lack a required field."""
        by_name = dict(zip(self._fields, columns, strict=True))
        for name in self.reading.required:
            if by_name[name].null_count:
                for n, has_value in enumerate(by_name[name].is_valid().to_pylist()):
                    if not has_value:
                        reasons.setdefault(n, f"field '{name}': missing or null")

    def _reason(self, event: bytes) -> str:
        _, reason = self._judged(event)
        assert reason is not None
        return reason

    def _judged(self, event: bytes) -> tuple[Any, str | None]:
        """Return the members of an event, and its fault if there is one: of the first field that has one."""
        try:
            outer = _object(event)
            places = [outer] if self.reading.from_device else _objects(outer, "values", "key")
            if not places:
                return self._empty, NO_VALUES
            members = {}
            for attribute, (name, kind) in zip(self._attributes, self._fields.items(), strict=True):
                raw = _first(name, places, None if self.reading.from_device else outer)
                if raw is None:
                    continue
                try:
                    value = self._judges[name](raw)
                except MALFORMED:
                    got = bytes(raw).decode()[:_SHOWN]
                    return self._empty, f"field '{name}': expected {kind.expected}, got {got}"
                members[attribute] = value
        except MALFORMED:
            return self._empty, NOT_AN_OBJECT
        return self._members(**members), None

    def _decoder(self) -> Callable[[bytes], Any]:
        """Return the function that decodes an event to its members."""
        if self.reading.from_device:
            return msgspec.json.Decoder(self._members).decode
        opened = msgspec.json.Decoder(self._envelope()).decode
        return lambda event: self._looked_up(opened(event))

    def _envelope(self) -> Any:
        """Make a struct of an upstream result, with the members that declared fields may come from."""
        members: list[Any] = [("values", self._members), ("key", self._members | None, None)]
        bounds = [
            (end, self._fields[f"window_{end}"].decoded | None, None)
            for end in ("start", "end")
            if f"window_{end}" in self._fields
        ]
        if bounds:
            members.append(("window", msgspec.defstruct("Bounds", bounds) | None, None))
        if "count" in self._fields:
            members.append(("count", self._fields["count"].decoded | None, None))
        return msgspec.defstruct("Envelope", members)

    def _looked_up(self, row: Any) -> Any:
        """Return the members of an upstream result, with what its values lack from its other places."""
        members = row.values
        for attribute, name in zip(self._attributes, self._fields, strict=True):
            if getattr(members, attribute) is None:
                found = None if row.key is None else getattr(row.key, attribute)
                setattr(members, attribute, _beside(row, name) if found is None else found)
        return members


def _beside(envelope: Any, name: str) -> Any:
    """Return what an upstream result has of a field beside its values and key; None for nothing."""
    if name not in _OF_ENVELOPE:
        return None
    found = envelope
    for step in _OF_ENVELOPE[name]:
        found = getattr(found, step, None)
    return found


def _time(raw: Any) -> str:
    text = msgspec.json.decode(raw, type=str)
    if micros_of(text) is None:
        raise msgspec.ValidationError("no time")
    return text


def _objects(outer: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    """Return the members of a result that are objects. Without the first there are none."""
    found = []
    for name in names:
        try:
            found.append(_object(outer[name]))
        except (KeyError, *MALFORMED):
            if not found:
                return []
    return found


def _first(name: str, places: list[dict[str, Any]], envelope: dict[str, Any] | None) -> Any:
    """Return the JSON of a field where it first has a value; None where it has none."""
    raws = [place[name] for place in places if name in place]
    if envelope is not None and name in _OF_ENVELOPE:
        place: Any = envelope
        for step in _OF_ENVELOPE[name][:-1]:
            (place,) = _objects(place, step) or ({},)
        raws += [place[step] for step in _OF_ENVELOPE[name][-1:] if step in place]
    return next((raw for raw in raws if bytes(raw) != b"null"), None)
