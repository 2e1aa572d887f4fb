"""Encode results and rejected events: their JSON, and their message ids.

Two runs of a job give a result the same id, because ids are made from the result's meaning. Their grammar is
in `towpath.contracts.data_plane` and in PROTOCOL.md, section 15. The sink puts the life of the output stream
before each.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from towpath.contracts.data_plane import ID_SEPARATOR, PLAIN_ID, PROCESSED_MARK, REJECTED_MARK, input_code
from towpath.contracts.job import Assignment
from towpath.contracts.operators import Python, step_names
from towpath.prediction.packing import PACKED, unpacked
from towpath.streams.json_texts import Texts, encode, json_objects, json_texts
from towpath.streams.plain_values import iso_times, members, plain_values
from towpath.streams.reading import INPUT, SERIAL, STORED_AT
from towpath.streams.whole_events import is_object

VALUES = "values"
"""Column of a result: a struct, or a JSON object as text."""
OWN_TEXT = "own text"
"""In place of it a text that user code made: a JSON object, or the only value, with the name `value`."""
KEY = "key"
"""The same of its key."""
COUNT = "count"
WINDOW = "window"
"""The window that an event tells of: a struct of `start` and `end`, or a JSON object as text."""
CLOSED = "closed window"
"""The window that has closed with this result: a struct of `start` and `end`. It is part of the id."""
AFTER, THROUGH = "after", "through"
"""A processing-time window covers the serial numbers behind `after`, up to `through`. Part of the id."""
IDENTITY = "identity"
"""Struct of the values that identify a result; null where its event does."""

_PLAIN = re.compile(PLAIN_ID)
_MILLISECOND = 1000
_DERIVED_DIGITS = 16


class Message(NamedTuple):
    """A result or a rejected event, ready to be published."""

    identity: str
    """Message id, without the life of the output stream."""
    body: bytes


@dataclass(frozen=True)
class RejectedEvent:
    """An event that did not fit."""

    serial: int
    input: int
    """Position of the input in the job."""
    stored_at: int
    """Microseconds since 1970."""
    reason: str
    text: str
    step: int = 0
    """Of a chain: position of the step that rejected it."""
    derived: bool = False
    """An earlier step made it: of one event it may have made several."""


@dataclass(frozen=True)
class MessageEncoder:
    """Encodes what one run of a job publishes."""

    job: str
    site: str
    epoch: int
    inputs: tuple[str, ...]
    """Names of the inputs, in order."""
    codes: tuple[str, ...]
    """For each input the code of its stream: so ids differ when inputs change."""
    steps: tuple[str, ...] = ()
    """Of a chain: the names of its steps."""
    has_user_code: bool = False
    """User code may make several rows of one event."""

    @classmethod
    def of(cls, assignment: Assignment, site: str) -> MessageEncoder:
        """Return the encoder of `assignment`'s results when `site` computes them."""
        inputs = assignment.inputs
        names = tuple(source.name for source in inputs)
        codes = tuple(input_code(each.site, each.stream, each.subject, each.numbering) for each in inputs)
        steps = tuple(step_names(assignment.spec.operator))
        operator = assignment.spec.operator
        has_user_code = any(isinstance(each, Python) for each in getattr(operator, "steps", [operator]))
        return cls(assignment.spec.name, site, assignment.epoch, names, codes, steps, has_user_code)

    def results(self, table: pa.Table) -> list[Message]:
        """Return a message for each row: windows by their end, others by their serial number.

        Columns are those that this module names. All but `serial`, `stored_at` and the values may be missing.
        All of them may be packed.
        """
        if not table.num_rows:
            return []
        if PACKED in table.column_names:
            table = unpacked(table.column(PACKED).to_pylist())
            if CLOSED in table.column_names:
                table = table.drop_columns([INPUT])  # Of a window over several inputs none is its own.
        columns = {name: table.column(name).combine_chunks() for name in table.column_names}
        identities = self._identities(columns, table.num_rows)
        bodies = self._bodies(columns, table.num_rows)
        if self.has_user_code and IDENTITY not in columns:
            _check_distinct(identities, bodies)
        messages = [Message(identity, body) for identity, body in zip(identities, bodies, strict=True)]
        by = members(columns[CLOSED])["end"].cast(pa.int64()) if CLOSED in columns else columns[SERIAL]
        places = by.to_pylist()
        # Spark returns closed windows in the order of its state's bytes.
        return [messages[n] for n in sorted(range(len(messages)), key=places.__getitem__)]

    def punctuation(self, end_ms: int) -> Message:
        """Return an empty window at `end_ms`, milliseconds since 1970.

        It stands for no event, and is the same in every run.
        """
        end = datetime.fromtimestamp(end_ms / 1000, UTC).isoformat()
        body = {
            "job": self.job,
            "site": self.site,
            "epoch": self.epoch,
            "serial": 0,
            "stored_at": end,
            "window": {"start": end, "end": end},
            "count": 0,
            "values": {},
        }
        return Message(_joined(self.job, end_ms, end_ms), encode(body))

    def rejected(self, events: Iterable[RejectedEvent]) -> list[Message]:
        """Return a message for each event, by input and serial number. Repeated ones appear once."""
        distinct = {(e.input, e.serial, e.step, e.text if e.derived else ""): e for e in events}
        ordered = [distinct[place] for place in sorted(distinct)]
        stored_at = iso_times(pa.array([event.stored_at for event in ordered], pa.timestamp("us", tz="UTC")))
        return [self._rejected(event, at) for event, at in zip(ordered, stored_at, strict=True)]

    def _rejected(self, event: RejectedEvent, stored_at: str | None) -> Message:
        identity = _joined(self.job, REJECTED_MARK, self.codes[event.input], event.serial)
        if event.derived:
            digest = hashlib.sha256(event.text.encode()).hexdigest()[:_DERIVED_DIGITS]
            identity = _joined(identity, self.steps[event.step], digest)
        step = {"step": self.steps[event.step]} if self.steps else {}
        body = {
            "job": self.job,
            "serial": event.serial,
            "input": self.inputs[event.input],
            "stored_at": stored_at,
            "reason": event.reason,
            **step,
            "event": event.text,
        }
        return Message(identity, encode(body))

    def _bodies(self, columns: dict[str, pa.Array], count: int) -> list[bytes]:
        """Return the members of `contracts.result.Result`, in their order."""
        window = columns.get(CLOSED, columns.get(WINDOW))
        values = _texts(columns[VALUES]) if VALUES in columns else _own_values(columns[OWN_TEXT])
        texts: dict[str, Texts | None] = {
            "job": [encode(self.job)] * count,
            "site": [encode(self.site)] * count,
            "epoch": [encode(self.epoch)] * count,
            "serial": json_texts(columns[SERIAL]),
            "input": self._input_names(columns.get(INPUT)),
            "stored_at": json_texts(columns[STORED_AT]),
            "window": None if window is None else _texts(window),
            "count": json_texts(columns[COUNT]) if COUNT in columns else [b"1"] * count,
            "after": json_texts(columns[AFTER]) if AFTER in columns else None,
            "through": json_texts(columns[THROUGH]) if THROUGH in columns else None,
            "key": _texts(columns[KEY], exact=True) if KEY in columns else None,
            "values": values,
        }
        return json_objects({name: column for name, column in texts.items() if column is not None})

    def _input_names(self, positions: pa.Array | None) -> Texts | None:
        """Return the input of each result, for jobs with several."""
        if positions is None or len(self.inputs) == 1:
            return None
        names = [encode(name) for name in self.inputs]
        return [None if n is None else names[n] for n in positions.to_pylist()]

    def _identities(self, columns: dict[str, pa.Array], count: int) -> list[str]:
        if CLOSED in columns:
            bounds = members(columns[CLOSED])
            parts = [_milliseconds(bounds["start"]), _milliseconds(bounds["end"])]
            return self._from_data(parts, columns.get(KEY))
        if AFTER in columns:
            parts = [[PROCESSED_MARK] * count, columns[AFTER].to_pylist(), columns[THROUGH].to_pylist()]
            return self._from_data(parts, columns.get(KEY))
        # Of a closed window over several inputs none is its own.
        positions = columns[INPUT].fill_null(0).to_pylist() if INPUT in columns else [0] * count
        heads = [_joined(self.job, code, "") for code in self.codes]
        of_event = [
            f"{heads[position]}{serial}"
            for position, serial in zip(positions, columns[SERIAL].to_pylist(), strict=True)
        ]
        if IDENTITY not in columns:
            return of_event
        identities = [
            None if not known else "[" + ",".join(map(_id_value, row)) + "]"
            for known, row in zip(
                columns[IDENTITY].is_valid().to_pylist(),
                zip(*_id_columns(columns[IDENTITY]).values(), strict=True),
                strict=True,
            )
        ]
        return [
            event if identity is None else self._digested(_joined(self.job, identity))
            for event, identity in zip(of_event, identities, strict=True)
        ]

    def _from_data(self, parts: Sequence[Sequence[Any]], key: pa.Array | None) -> list[str]:
        """Return ids made of these parts and the key."""
        if key is not None:
            names = [encode(name).decode() for name in members(key)]
            rows = zip(*_id_columns(key).values(), strict=True)
            pairs = [[f"{n}:{_id_value(v)}" for n, v in zip(names, row, strict=True)] for row in rows]
            parts = [*parts, ["{" + ",".join(row) + "}" for row in pairs]]
        return [self._digested(_joined(self.job, *row)) for row in zip(*parts, strict=True)]

    def _digested(self, plain: str) -> str:
        """Return an id made from data: from its digest if it is long or has unusual characters."""
        if _PLAIN.fullmatch(plain):
            return plain
        return _joined(self.job, hashlib.sha256(plain.encode()).hexdigest())


def _check_distinct(identities: Sequence[str], bodies: Sequence[bytes]) -> None:
    """Raise `RuntimeError` if two different results have one id: the stream would drop one of them."""
    known = dict(zip(identities, bodies, strict=True))
    if len(known) == len(identities):
        return
    for identity, body in zip(identities, bodies, strict=True):
        if known[identity] != body:
            raise RuntimeError(
                f"several results have the id {identity}, and all but one would be lost: user code that makes"
                " several rows of one event needs an `identity`"
            )


def _joined(*parts: Any) -> str:
    return ID_SEPARATOR.join(map(str, parts))


def _milliseconds(times: pa.Array) -> list[int]:
    return [micros // _MILLISECOND for micros in times.cast(pa.int64()).to_pylist()]


def _texts(column: pa.Array, *, exact: bool = False) -> Texts:
    """Return the JSON of a column's values. A text is JSON already."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return [None if text is None else text.encode() for text in column.to_pylist()]
    return json_texts(column, exact=exact)


def _own_values(column: pa.Array) -> Texts:
    made = [b"{}" if text is None else text.encode() for text in column.to_pylist()]
    return [text if is_object(text) else encode({"value": text.decode()}) for text in made]


def _id_columns(column: pa.StructArray) -> dict[str, list[Any]]:
    """Return the members of a struct. Times have microseconds, because two times must not become one."""
    return {name: plain_values(values, exact=True) for name, values in members(column).items()}


def _id_value(value: Any) -> str:
    """Return a value as it stands in an id. Ids outlive versions, so digits must not change."""
    match value:
        case float():
            return _java_digits(value)
        case Decimal():
            return format(value, "f")
        case _:
            return encode(value).decode()


def _java_digits(number: float) -> str:
    """Return a double as Java writes it, which has made ids from the beginning: 1.0E7, not 10000000.0."""
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, exponent = format(Decimal(repr(number)).normalize(), "e").lower().split("e")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"
