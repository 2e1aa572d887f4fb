"""What operators and functions of expressions do with values. None of them fails, whatever the values are.

Numbers are those of JSON, kept to 64 bits: a larger integer becomes a float. A boolean is no number. Bytes
and text are the same thing: bytes are read as UTF-8.
"""

from __future__ import annotations

import math
import operator
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from towpath.lab.faults.parsing import LARGEST_INTEGER

MAX_COMPARED_DEPTH = 50
"""Lists and objects that are nested deeper are equal to nothing."""


def as_text(value: Any) -> str | None:
    """A text, or bytes as text; null for anything else. No two bytes become the same text."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return value if isinstance(value, str) else None


def as_bytes(value: Any) -> bytes | None:
    """A text as bytes, or bytes; null for anything else."""
    if isinstance(value, str):
        # JSON may hold half a character, which no UTF-8 has.
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else None


def as_number(value: Any) -> int | float | None:
    """A number; null for anything else, and for what is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if isinstance(value, int):
        return value if -LARGEST_INTEGER <= value < LARGEST_INTEGER else _as_float(value)
    return None if math.isnan(value) else value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def equal(left: Any, right: Any, depth: int = MAX_COMPARED_DEPTH) -> bool:
    """Whether two values are the same. Opaque objects are equal to nothing."""
    if left is None or right is None or isinstance(left, bool) or isinstance(right, bool):
        return left is right
    number, other = as_number(left), as_number(right)
    if number is not None:
        return other is not None and number == other
    text = as_text(left)
    if text is not None:
        return text == as_text(right)
    if depth == 0:
        return False
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(lambda a, b: equal(a, b, depth - 1), left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(equal(left[k], right[k], depth - 1) for k in left)
    return False


def _ordered(before: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        number, other = as_number(left), as_number(right)
        if number is not None and other is not None:
            return before(number, other)
        text, other_text = as_text(left), as_text(right)
        return text is not None and other_text is not None and before(text, other_text)

    return compare


def contains(whole: Any, part: Any) -> bool:
    """Whether a text has a part, a list a value, or a mapping a key."""
    if isinstance(whole, list | tuple | set | frozenset):
        return any(equal(value, part) for value in whole)
    text, part_text = as_text(whole), as_text(part)
    if part_text is None:
        return False
    return part_text in text if text is not None else isinstance(whole, Mapping) and part_text in whole


def _starts(whole: Any, part: Any) -> bool:
    text, beginning = as_text(whole), as_text(part)
    return text is not None and beginning is not None and text.startswith(beginning)


def _ends(whole: Any, part: Any) -> bool:
    text, end = as_text(whole), as_text(part)
    return text is not None and end is not None and text.endswith(end)


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": equal,
    "!=": lambda left, right: not equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": lambda part, whole: contains(whole, part),
    "not in": lambda part, whole: not contains(whole, part),
    "contains": contains,
    "startswith": _starts,
    "endswith": _ends,
}
"""All but `matches`, whose pattern is compiled once."""

_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
}


def calculate(sign: str, left: Any, right: Any) -> int | float | None:
    """The result of `left sign right`; null where a side is no number or there is no result."""
    number, other = as_number(left), as_number(right)
    if number is None or other is None:
        return None
    try:
        return as_number(_ARITHMETIC[sign](number, other))
    except (ZeroDivisionError, OverflowError):
        return None


def negative(value: Any) -> int | float | None:
    """A number with the other sign; null for anything else."""
    number = as_number(value)
    return None if number is None else as_number(-number)


def _absolute(value: Any) -> int | float | None:
    number = as_number(value)
    return None if number is None else as_number(abs(number))


def _length(value: Any) -> int | None:
    return len(value) if isinstance(value, str | bytes | list | tuple | Mapping | set | frozenset) else None


def _lower(value: Any) -> str | None:
    text = as_text(value)
    return None if text is None else text.lower()


def _hash(value: Any) -> int | None:
    """CRC-32: quick, known everywhere, and the same in each process, which Python's own is not."""
    number = as_number(value)
    if number is not None:
        value = repr(int(number) if number == number // 1 and abs(number) < LARGEST_INTEGER else number)
    content = as_bytes(value)
    return None if content is None else zlib.crc32(content)


def _number(value: Any) -> int | float | None:
    text = as_text(value)
    if text is None:
        return as_number(value)
    for kind in (int, float):
        try:
            return as_number(kind(text))
        except ValueError:
            continue
    return None


def _extreme(choose: Callable[..., Any]) -> Callable[..., int | float | None]:
    def chosen(*values: Any) -> int | float | None:
        given = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        numbers = [number for number in map(as_number, given) if number is not None]
        return choose(numbers) if numbers else None

    return chosen


VALUES: Mapping[str, Callable[..., Any]] = {
    "abs": _absolute,
    "hash": _hash,
    "len": _length,
    "lower": _lower,
    "max": _extreme(max),
    "min": _extreme(min),
    "number": _number,
}
"""The functions of `vocabulary.VALUE_FUNCTIONS`."""
