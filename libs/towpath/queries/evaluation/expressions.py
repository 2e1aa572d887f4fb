"""Compute expressions and conditions of numbers that may be missing."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from towpath.queries.tree import (
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Expression,
    Membership,
    Negative,
    Number,
)

Lookup = Callable[[Expression], Any]
"""The value of a part that is no arithmetic; None if it has none."""

_COMPARED: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def value_of(expression: Expression, lookup: Lookup) -> Any:
    """Return the value of an expression; None if it has none."""
    match expression:
        case Number(value):
            return value
        case Negative(inner):
            value = value_of(inner, lookup)
            return None if value is None else -value
        case Arithmetic(sign, left, right):
            return _finite(_computed(sign, value_of(left, lookup), value_of(right, lookup)))
        case Call(function, arguments=(inner,)):
            return _finite(_mapped(function, value_of(inner, lookup)))
    return _finite(lookup(expression))


def holds(condition: Condition, lookup: Lookup, about: Any) -> bool:
    """Return true if a condition holds. `about` is the value where the condition names none."""
    match condition:
        case Both(left, right):
            return holds(left, lookup, about) and holds(right, lookup, about)
        case Either(left, right):
            return holds(left, lookup, about) or holds(right, lookup, about)
        case Membership(left, values):
            value = about if left is None else value_of(left, lookup)
            return value is not None and value in values
        case Comparison(left, sign, right):
            value = about if left is None else value_of(left, lookup)
            other = right if isinstance(right, str) else value_of(right, lookup)
            return value is not None and other is not None and _COMPARED[sign](value, other)


def _computed(sign: str, left: float | None, right: float | None) -> float | None:
    if left is None or right is None:
        return None
    if sign in "/%" and right == 0:
        return None
    match sign:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case _:
            return math.fmod(left, right)


def _mapped(function: str, value: float | None) -> float | None:
    if value is None:
        return None
    match function:
        case "ABS":
            return abs(value)
        case "SQR":
            return value * value
        case _:
            return math.sqrt(value) if value >= 0 else None


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
