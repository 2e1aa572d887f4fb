"""Tells payloads apart that cannot fulfil a condition on their JSON, without reading the JSON.

A text that a JSON document holds stands in its bytes as it is, unless something in the document is escaped or
the document is not in UTF-8. So a payload without the bytes, without a backslash and without a NUL, which
all JSON in UTF-16 and UTF-32 has, need not be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from towpath.lab.faults.expressions import Comparison, Expression, Listed, Literal, Path
from towpath.lab.faults.operations import as_bytes

_ORDERS = frozenset({"<", "<=", ">", ">="})

_FIRST_UNESCAPED = " "
"""Characters before it, quotes and backslashes stand in JSON as escapes only."""


def needed(node: Expression) -> tuple[bytes, ...]:
    """Bytes of which one at least is in each payload for which the node holds, as far as the module's
    docstring says; empty when that is not known."""
    match node:
        case Path():
            return (b"true",) if _is_event(node) else ()  # It holds where its value is `true`.
        case Comparison(operator, left, right) if operator in _ORDERS:
            return _key(left) or _key(right)  # What is missing is neither less nor more.
        case Comparison("==", left, Literal(value)) if _is_event(left):
            return _value(value) or (_key(left) if value is not None else ())
        case Comparison("==", Literal(value), right) if _is_event(right):
            return _value(value) or (_key(right) if value is not None else ())
        case Comparison("in", left, Listed(items)) if _is_event(left):
            return _one_of(items)
        case Comparison("contains", whole, Literal(str(part))) if _is_event(whole):
            return _text(part) or _key(whole)
        case Comparison("in", Literal(str(part)), whole) if _is_event(whole):
            return _text(part) or _key(whole)
        case Comparison("startswith", whole, Literal(str(part))) if _is_event(whole):
            return _text(part, before='"') or _key(whole)
        case Comparison("endswith", whole, Literal(str(part))) if _is_event(whole):
            return _text(part, after='"') or _key(whole)
        case Comparison("matches", whole, Literal()):
            return _key(whole)
    return ()


def sifted(needles: tuple[bytes, ...], payloads: Sequence[Any], places: Sequence[int]) -> Sequence[int]:
    """Those of the places whose payload must be read to know whether the node holds."""
    if len(needles) == 1:
        (needle,) = needles
        return [
            place
            for place in places
            if type(payload := payloads[place]) is not bytes
            or needle in payload
            or b"\\" in payload
            or b"\0" in payload
        ]
    return [place for place in places if _may_hold(needles, payloads[place])]


def _may_hold(needles: tuple[bytes, ...], payload: Any) -> bool:
    if type(payload) is not bytes or b"\\" in payload or b"\0" in payload:
        return True
    return any(needle in payload for needle in needles)


def _is_event(node: Expression) -> bool:
    return isinstance(node, Path) and node.steps[0] == "event"


def _key(node: Expression) -> tuple[bytes, ...]:
    """The innermost key of a path into the JSON: without it there is nothing."""
    if not (isinstance(node, Path) and _is_event(node)):
        return ()
    keys = [step for step in node.steps[1:] if isinstance(step, str)]
    return _text(keys[-1], before='"', after='"') if keys else ()


def _value(value: object) -> tuple[bytes, ...]:
    """How a value is written. Numbers can be written in many ways."""
    if isinstance(value, bool):
        return (b"true",) if value else (b"false",)
    return _text(value, before='"', after='"') if isinstance(value, str) else ()


def _one_of(items: Sequence[Expression]) -> tuple[bytes, ...]:
    values = [_value(item.value) if isinstance(item, Literal) else () for item in items]
    return tuple(needle for value in values for needle in value) if all(values) else ()


def _text(text: str, *, before: str = "", after: str = "") -> tuple[bytes, ...]:
    """A text as it stands in JSON, if it can stand there without an escape."""
    if not text or any(character < _FIRST_UNESCAPED or character in '"\\' for character in text):
        return ()
    encoded = as_bytes(f"{before}{text}{after}")
    return () if encoded is None else (encoded,)
