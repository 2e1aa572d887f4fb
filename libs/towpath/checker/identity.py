"""Identities of results: the same identity means the same result, whichever run computed it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from towpath.contracts.errors import ErrorCode, TowpathError

RESULT = "(result)"
"""Column of results that are known by an `Identity`. No field has this name."""

Values = tuple[tuple[str, Any], ...]
"""Named values in the order of their names: a mapping that can be part of an identity."""


class WindowIdentity(NamedTuple):
    """A window of a job, for one key. Independent of how the events were cut into batches."""

    job: str
    start: datetime
    end: datetime
    key: Values


class RangeIdentity(NamedTuple):
    """A processing-time window of a job, for one key: the events with `after` < serial number ≤ `through`."""

    job: str
    after: int
    through: int
    key: Values


class SerialIdentity(NamedTuple):
    """The result, or the rejection, of one event of one input of a job."""

    job: str
    input: str | None
    serial: int


class ValuesIdentity(NamedTuple):
    """A result that is known by named fields of its `values`, such as the `id` a device gave."""

    job: str
    values: Values


class EventIdentity(NamedTuple):
    """A rejected event, known by its own text."""

    event: str


class Unreadable(NamedTuple):
    """A message that is no result at all. It is never expected, so it always shows in the verdict."""

    topic: str
    reason: str
    beginning: str
    """Its first 200 characters."""
    digest: int


Identity = WindowIdentity | RangeIdentity | SerialIdentity | ValuesIdentity | EventIdentity | Unreadable
IdentityOf = Callable[[Mapping[str, Any]], Identity]
"""Returns the identity of a parsed result or rejected event."""


def identity_of(body: Mapping[str, Any]) -> Identity:
    """Return the identity of a result: by its window and key, by its range and key, or by its serial number.

    Raises `KeyError`, `TypeError` or `ValueError` for a body that is neither a `Result` nor a `Rejected`.
    """
    window = body.get("window")
    if window is not None:
        start, end = utc(window["start"]), utc(window["end"])
        return WindowIdentity(body["job"], start, end, named(body.get("key") or {}))
    if body.get("through") is not None:
        key = named(body.get("key") or {})
        return RangeIdentity(body["job"], int(body["after"]), int(body["through"]), key)
    return identity_by_serial(body)


def identity_by_serial(body: Mapping[str, Any]) -> Identity:
    """Identify a result by the one event that it stands for, also where it passes a window on."""
    return SerialIdentity(body["job"], body.get("input"), int(body["serial"]))


def identity_by_values(*fields: str) -> IdentityOf:
    """Identify results by named fields of `values`, for events whose serial number is not known beforehand.

    A device that repeats an event after a lost acknowledgement gives it a second serial number; its
    identity by `("id",)` stays the same.
    """
    if not fields:
        raise TowpathError(ErrorCode.INVALID, "no field identifies a result", field="fields", allowed="names")

    def by_values(body: Mapping[str, Any]) -> Identity:
        values = body["values"]
        return ValuesIdentity(body["job"], named({field: values[field] for field in fields}))

    return by_values


def identity_by_event(body: Mapping[str, Any]) -> Identity:
    """Identify a rejected event by its own text, for dead-letter topics."""
    return EventIdentity(body["event"])


def named(values: Mapping[str, Any]) -> Values:
    """Return named values as part of an identity.

    Objects and lists count by their JSON text. A null value counts as absent, because not every JSON writer
    writes nulls.
    """
    return tuple(
        (name, value if not isinstance(value, dict | list) else json.dumps(value, sort_keys=True))
        for name, value in sorted(values.items())
        if value is not None
    )


def utc(text: str) -> datetime:
    """Return the moment that an ISO 8601 text names; without a zone it is UTC."""
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def described(known_by: Mapping[str, Any]) -> str:
    """Return the fields that identify a result on one line, for people."""
    identity = known_by.get(RESULT)
    if identity is None:
        return ", ".join(f"{name}={held!r}" for name, held in known_by.items())
    parts: dict[str, Any] = identity._asdict()
    for name in parts.keys() & {"key", "values"}:
        parts[name] = ", ".join(f"{part}={held!r}" for part, held in parts[name])
    return "; ".join(f"{name} {value}" for name, value in parts.items())
