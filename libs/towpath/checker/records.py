"""Read lines of a file, or messages: events or results, with the circumstances of their delivery.

Each line has one of three forms:

- a plain JSON object with fields; `Marks` names those that tell how it came;
- a result as Towpath's jobs publish it: its `values`, and beside them key, window, count, serial, …;
- a recorded message, `{"topic": …, "payload": …}`, with one of these as payload, as an object or a text.
  `mosquitto_sub -F %j` and `%J` write such lines. It may have `received_at` (or `tst`), `connection`,
  `subscriber`, `offset`, `epoch`, and `dup`, which is MQTT's flag of that name.

Fields of objects inside objects are named with dots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from towpath.checker.identity import RESULT, identity_of
from towpath.checker.moments import TimeUnit, microseconds


@dataclass(frozen=True)
class Marks:
    """Fields of a plain result that tell how it came. They are not compared."""

    epoch: str | None = None
    """Field with the epoch of the job's owner that published it."""
    offset: str | None = None
    """Field with its place in the log."""
    received_at: str | None = None
    stored_at: str | None = None
    """Field with the time when the newest event in it was stored."""
    connection: str | None = None
    """Field with the number of its subscriber's connection, from 1."""
    subscriber: str | None = None
    unit: TimeUnit = TimeUnit.SECONDS
    """Unit of times that are numbers."""

    @property
    def names(self) -> frozenset[str]:
        """The fields that are used."""
        named = (self.epoch, self.offset, self.received_at, self.stored_at, self.connection, self.subscriber)
        return frozenset(name for name in named if name is not None)


PLAIN = Marks()


@dataclass(slots=True)
class Delivery:
    """One event or result, with the circumstances of its delivery."""

    own: Mapping[str, Any]
    """Its fields, or its `values`."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Key, window and more of a result of Towpath."""
    job: str | None = None
    epoch: int | None = None
    offset: int | None = None
    received_at: float | None = None
    """Unix seconds."""
    stored_at: float | None = None
    """Unix seconds."""
    connection: int = 1
    dup: bool = False
    """MQTT's DUP flag: the broker had sent this before."""
    subscriber: str | None = None
    text: bytes | None = None
    """The received text, if it is not the whole line."""
    trouble: str | None = None
    """The reason why the payload of a recorded message cannot be read."""


def read_record(text: bytes | str, marks: Marks = PLAIN, *, identified: bool = False) -> Delivery:
    """Return the record of a JSON text. With `identified`, results of Towpath have their `Identity` beside.

    Raises `ValueError` for a text that is no JSON object. A recorded message with such a payload has a
    `trouble`.
    """
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError(f"a JSON object is needed, not {type(body).__name__}")
    if "topic" in body and "payload" in body:
        return _recorded(body, marks, identified)
    return _record(body, marks, identified)


def recorded(
    topic: str,
    payload: bytes,
    *,
    received_at: float | None = None,
    connection: int = 1,
    subscriber: str = "",
    offset: int | None = None,
    dup: bool = False,
) -> bytes:
    """Return the line of a recorded message: an object as it is, any other payload as text."""
    message: dict[str, Any] = {"topic": topic, "connection": connection}
    known = {
        "received_at": received_at,
        "subscriber": subscriber or None,
        "offset": offset,
        "dup": dup or None,
    }
    message |= {name: value for name, value in known.items() if value is not None}
    if payload[:1] == b"{" and payload[-1:] == b"}" and b"\n" not in payload and _is_object(payload):
        return json.dumps(message)[:-1].encode() + b', "payload": ' + payload + b"}"
    return json.dumps(message | {"payload": payload.decode(errors="replace")}).encode()


def _is_object(payload: bytes) -> bool:
    try:
        return isinstance(json.loads(payload), dict)
    except ValueError:
        return False


def _recorded(message: Mapping[str, Any], marks: Marks, identified: bool) -> Delivery:
    payload = message["payload"]
    try:
        body = json.loads(payload) if isinstance(payload, str) else payload
        if not isinstance(body, dict):
            raise ValueError(f"the payload must be a JSON object, not {type(body).__name__}")
        record = _record(body, marks, identified)
    except ValueError as error:
        record = Delivery({}, trouble=str(error))
    record.text = (payload if isinstance(payload, str) else repr(payload)).encode()
    record.received_at = _seconds(message.get("received_at", message.get("tst")), marks.unit)
    record.connection = _whole(message.get("connection")) or 1
    record.dup = message.get("dup") in (True, 1)
    subscriber = message.get("subscriber")
    record.subscriber = None if subscriber is None else str(subscriber)
    record.offset = _whole(message.get("offset"))
    epoch = _whole(message.get("epoch"))
    record.epoch = record.epoch if epoch is None else epoch
    return record


def _record(body: Mapping[str, Any], marks: Marks, identified: bool) -> Delivery:
    if isinstance(body.get("values"), dict) and isinstance(body.get("job"), str):
        return _of_towpath(body, identified)
    fields = _flat(body)
    if not marks.names:
        return Delivery(fields)
    record = Delivery({name: value for name, value in fields.items() if name not in marks.names})
    marked = {name: fields.get(name) for name in marks.names}
    record.epoch = _whole(marked.get(marks.epoch or ""))
    record.offset = _whole(marked.get(marks.offset or ""))
    record.received_at = _seconds(marked.get(marks.received_at or ""), marks.unit)
    record.stored_at = _seconds(marked.get(marks.stored_at or ""), marks.unit)
    record.connection = _whole(marked.get(marks.connection or "")) or 1
    subscriber = marked.get(marks.subscriber or "")
    record.subscriber = None if subscriber is None else str(subscriber)
    return record


def _of_towpath(body: Mapping[str, Any], identified: bool) -> Delivery:
    window = body.get("window") or {}
    beside = {**body, **(body.get("key") or {})}
    beside["window_start"], beside["window_end"] = window.get("start"), window.get("end")
    if identified:
        try:
            beside[RESULT] = identity_of(body)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"a result without identity: {error!r}") from error
    return Delivery(
        _flat(body["values"]),
        beside,
        job=body["job"],
        epoch=_whole(body.get("epoch")),
        stored_at=_seconds(body.get("stored_at"), TimeUnit.SECONDS),
    )


def _flat(body: Mapping[str, Any], path: str = "") -> Mapping[str, Any]:
    if not path and not any(isinstance(value, dict) for value in body.values()):
        return body
    fields: dict[str, Any] = {}
    for name, value in body.items():
        fields |= _flat(value, f"{path}{name}.") if isinstance(value, dict) else {path + name: value}
    return fields


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None


def _seconds(value: Any, unit: TimeUnit) -> float | None:
    at = microseconds(value, unit)
    return None if at is None else at / 1_000_000
