"""Decode events to Arrow columns. An event that does not fit gets a reason; none is dropped."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

import msgspec
import pyarrow as pa

from towpath.streams.formats import ToJson, Unreadable, to_json
from towpath.streams.reading import INPUT, REASON, SERIAL, STORED_AT, TEXT, Reading

NOT_AN_OBJECT = "not a JSON object"
NOT_UTF8 = "not UTF-8"
NO_VALUES = "field 'values': expected an object, as in every job's result"

MALFORMED = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
"""Raised by msgspec for a text that is no JSON, is nested too deeply, or has another type than expected."""

TIMESTAMP = pa.timestamp("us", tz="UTC")


class EventDecoder(ABC):
    """Decodes events as a reading wants them."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.to_json: ToJson | None = None if reading.form is None else to_json(reading.form)
        """Reads an event of another form than JSON; None where events are JSON."""
        self._names = [SERIAL, INPUT, STORED_AT, *reading.columns(), REASON, TEXT]

    @abstractmethod
    def columns(self, events: Sequence[bytes], reasons: dict[int, str]) -> list[pa.Array]:
        """Return the columns of `Reading.columns`. Add the reason of each event that does not fit.

        `reasons` is by the place of an event among `events`. It already has those that are not UTF-8.
        """

    def as_json(self, events: Sequence[bytes]) -> Sequence[bytes]:
        """Return events as JSON objects. Those that cannot be read stay as they are."""
        return events if self.to_json is None else _read(events, self.to_json)[0]

    def batch(
        self,
        serials: Sequence[int],
        stored_at: Sequence[datetime],
        events: Sequence[bytes],
        known: Mapping[int, str] = MappingProxyType({}),
    ) -> pa.RecordBatch:
        """Return events as a batch with the columns of `Reading.schema`.

        `known` has the reasons of those that are rejected in any case, by their place among `events`.
        """
        if self.to_json is None:
            texts, reasons = _texts(events)
        else:
            events, unread = _read(events, self.to_json)
            texts, reasons = _texts(events)
            reasons = {**reasons, **unread}
        reasons |= known
        columns = self.columns(events, reasons)
        count = len(events)
        if reasons and not self.reading.keeps_text:
            texts = pa.array([texts[n].as_py() if n in reasons else None for n in range(count)], pa.string())
        elif not self.reading.keeps_text:
            texts = pa.nulls(count, pa.string())
        told = [reasons.get(n) for n in range(count)] if reasons else None
        everything = [
            pa.array(serials, pa.int64()),
            pa.repeat(pa.scalar(self.reading.position, pa.int32()), count),
            pa.array(stored_at, TIMESTAMP),
            *columns,
            pa.nulls(count, pa.string()) if told is None else pa.array(told, pa.string()),
            texts,
        ]
        return pa.RecordBatch.from_arrays(everything, names=self._names)


def decoder_of(reading: Reading) -> EventDecoder:
    """Return the decoder for a reading."""
    # Not at the top: each of them is a decoder of this module.
    from towpath.streams.typed_events import TypedEvents
    from towpath.streams.whole_events import WholeEvents

    return WholeEvents(reading) if reading.fields is None else TypedEvents(reading)


def _read(events: Sequence[bytes], to_json: ToJson) -> tuple[list[bytes], dict[int, str]]:
    """Return events as JSON objects. Those that cannot be read stay as they are, and get a reason."""
    read, reasons = list(events), {}
    for n, event in enumerate(events):
        try:
            read[n] = to_json(event)
        except Unreadable as error:
            reasons[n] = str(error)
    return read, reasons


def _texts(events: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
    """Return events as text, and the reasons of those that are not UTF-8."""
    raw = pa.array(events, pa.binary())
    try:
        return raw.cast(pa.string()), {}
    except pa.ArrowInvalid:
        reasons = {n: NOT_UTF8 for n, event in enumerate(events) if not _is_utf8(event)}
        texts = [event.decode(errors="replace") for event in events]
        return pa.array(texts, pa.string()), reasons


def _is_utf8(event: bytes) -> bool:
    try:
        event.decode()
    except UnicodeDecodeError:
        return False
    return True
