"""Tell the events that `clean` should accept from those it should reject, in plain Python.

This follows the contract of `Clean` alone. The engine reads events with Spark's JSON parser. Where that is
more generous than the contract (a number instead of a string), the difference must show.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NoReturn

from towpath.checker.identity import EventIdentity, Identity, ValuesIdentity, named, utc
from towpath.contracts.operators import Clean, FieldRule, FieldType

_LONG = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Rejection:
    """The reason why an event is rejected."""

    field: str | None
    """None when the event as a whole is no JSON object."""
    reason: str


@dataclass(slots=True)
class CleanTruth:
    """The right outcome of each event. Events are known by their position, from 0."""

    accepted: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Position → the declared fields' values, times parsed; null where an optional one is absent."""
    rejected: dict[int, Rejection] = field(default_factory=dict)
    repeated: list[int] = field(default_factory=list)
    """Events that repeat the `identity` of an earlier accepted one; they have no result of their own."""

    def results(self, job: str, *fields: str) -> dict[Identity, dict[str, Any]]:
        """Return the accepted events for `judge`, identified by `fields`: see `identity_by_values`."""
        return {
            ValuesIdentity(job, named({name: values[name] for name in fields})): values
            for values in self.accepted.values()
        }

    def rejections(self, events: Sequence[bytes]) -> dict[Identity, dict[str, Any]]:
        """Return the rejected ones of `events` for `judge`: see `identity_by_event`."""
        texts = [events[position].decode(errors="replace") for position in self.rejected]
        return {EventIdentity(text): {"event": text} for text in texts}


def clean_truth(events: Iterable[bytes], rules: Clean) -> CleanTruth:
    """Apply `rules` to the events as they were sent."""
    truth = CleanTruth()
    seen: set[tuple[Any, ...]] = set()
    for position, payload in enumerate(events):
        values = _read(payload)
        refusal = Rejection(None, "not a JSON object") if values is None else _refusal(values, rules)
        if values is None or refusal is not None:
            truth.rejected[position] = refusal or Rejection(None, "not a JSON object")
            continue
        identity = tuple(values.get(name) for name in rules.identity)
        if rules.identity and identity in seen:
            truth.repeated.append(position)
            continue
        seen.add(identity)
        truth.accepted[position] = {
            name: _value(values.get(name), rule.type) for name, rule in rules.fields.items()
        }
    return truth


def _read(payload: bytes) -> dict[str, Any] | None:
    """Return the JSON object, or None if there is none. NaN and infinities are not JSON."""
    try:
        values = json.loads(payload, parse_constant=_no_constant)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _refusal(values: dict[str, Any], rules: Clean) -> Rejection | None:
    """Return the first rule, in the order of the declared fields, that the event breaks."""
    for name, rule in rules.fields.items():
        value = values.get(name)
        if value is None:
            if rule.required:
                return Rejection(name, "missing")
            continue
        if not _FITS[rule.type](value):
            return Rejection(name, f"not a {rule.type.value}")
        reason = _broken_limit(value, rule)
        if reason is not None:
            return Rejection(name, reason)
    return None


def _broken_limit(value: Any, rule: FieldRule) -> str | None:
    if rule.minimum is not None and value < rule.minimum:
        return f"below {rule.minimum}"
    if rule.maximum is not None and value > rule.maximum:
        return f"above {rule.maximum}"
    if rule.pattern is not None and re.fullmatch(rule.pattern, value) is None:
        return f"does not match {rule.pattern}"
    if rule.one_of is not None and value not in rule.one_of:
        return "not one of the allowed"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_timestamp(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        utc(value)
    except (ValueError, OverflowError):
        return False
    return True


_FITS: dict[FieldType, Callable[[Any], bool]] = {
    FieldType.STRING: lambda value: isinstance(value, str),
    FieldType.LONG: lambda value: type(value) is int and value in _LONG,
    FieldType.DOUBLE: _is_number,
    FieldType.BOOLEAN: lambda value: isinstance(value, bool),
    FieldType.TIMESTAMP: _is_timestamp,
}


def _value(value: Any, kind: FieldType) -> str | int | float | bool | datetime | None:
    """Return the value as its type has it."""
    if value is None:
        return None
    if kind is FieldType.TIMESTAMP:
        return utc(value)
    return float(value) if kind is FieldType.DOUBLE else value
