"""The language of conditions, read a second time: slowly, and by its definition alone."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from towpath.lab.faults.chance import Chance
from towpath.lab.faults.expressions import (
    And,
    Arithmetic,
    Between,
    Called,
    Comparison,
    Every,
    Expression,
    First,
    Listed,
    Literal,
    Negative,
    Not,
    Or,
    Path,
    Probability,
    walk,
)

SEED = 3


class Reference:
    """The language again, one occurrence after the other and without any short cut."""

    def __init__(self, tree: Expression, elapsed: float) -> None:
        self._tree = tree
        self._elapsed = elapsed
        self._count = self._acted = self._counter = 0
        nodes = [node for node, _ in walk(tree) if isinstance(node, Probability)]
        self._picks = {
            id(node): set(Chance(node.p, SEED, number).picks(0, 100)) for number, node in enumerate(nodes)
        }

    def holds(self, fields: Mapping[str, Any]) -> bool:
        self._count += 1
        self._fields = fields
        held = self._test(self._tree)
        self._acted += held
        return held

    def _test(self, node: Expression) -> bool:
        match node:
            case And(operands):
                return all(self._test(operand) for operand in operands)
            case Or(operands):
                return any(self._test(operand) for operand in operands)
            case Not(operand):
                return not self._test(operand)
            case Every(n):
                return self._count % n == 0
            case Probability():
                return self._count in self._picks[id(node)]
            case First(n):
                return self._acted < n
            case Between(start, end):
                return start <= self._elapsed < (math.inf if end is None else end)
            case Comparison(operator, left, right):
                return compared(operator, self._value(left), self._value(right))
        return self._value(node) is True

    def _value(self, node: Expression) -> Any:
        match node:
            case Literal(value):
                return value
            case Path((name, *rest)):
                value = self._named(str(name))
                for step in rest:
                    value = inside(value, step)
                return value
            case Listed(items):
                return [self._value(item) for item in items]
            case Negative(operand):
                number = numeric(self._value(operand))
                return None if number is None else numeric(-number)
            case Arithmetic(sign, left, right):
                return calculated(sign, self._value(left), self._value(right))
            case Called("counter"):
                self._counter += 1
                return self._counter
            case Called(name, arguments):
                return called(name, [self._value(argument) for argument in arguments])
        return self._test(node)

    def _named(self, name: str) -> Any:
        if name == "count":
            return self._count
        if name == "acted":
            return self._acted
        if name != "event":
            return self._fields.get(name)
        try:
            return json.loads(self._fields["payload"])
        except ValueError:
            return None


def inside(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if -len(value) <= step < len(value) else None
    return None


def numeric(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**63 else value


def text_of(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def calculated(sign: str, left: Any, right: Any) -> Any:
    one, other = numeric(left), numeric(right)
    if one is None or other is None:
        return None
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b,
        "%": lambda a, b: a % b,
    }
    try:
        return numeric(functions[sign](one, other))
    except ArithmeticError:
        return None


def called(name: str, arguments: list[Any]) -> Any:
    first = arguments[0]
    if name == "len":
        return len(first) if isinstance(first, str | bytes | list | dict) else None
    if name == "lower":
        return text_of(first).lower() if isinstance(first, str | bytes) else None
    if name == "abs":
        number = numeric(first)
        return None if number is None else numeric(abs(number))
    given_values = first if len(arguments) == 1 and isinstance(first, list) else arguments
    numbers = [numeric(each) for each in given_values if numeric(each) is not None]
    return (min if name == "min" else max)(numbers) if numbers else None


def same(left: Any, right: Any) -> bool:
    left, right = text_of(left), text_of(right)
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return numeric(left) is not None and numeric(left) == numeric(right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, dict) and isinstance(right, dict):
        return set(left) == set(right) and all(same(left[key], right[key]) for key in left)
    return isinstance(left, str) and isinstance(right, str) and left == right


def compared(operator: str, left: Any, right: Any) -> bool:
    if operator in ("!=", "not in"):
        return not compared({"!=": "==", "not in": "in"}[operator], left, right)
    if operator == "==":
        return same(left, right)
    if operator == "in":
        return compared("contains", right, left)
    left, right = text_of(left), text_of(right)
    texts = isinstance(left, str) and isinstance(right, str)
    if operator == "contains":
        if isinstance(left, list):
            return any(same(each, right) for each in left)
        return isinstance(right, str) and isinstance(left, str | dict) and right in left
    if operator == "matches":
        return texts and re.search(right, left) is not None
    if operator in ("startswith", "endswith"):
        return texts and getattr(left, operator)(right)
    one, other = (left, right) if texts else (numeric(left), numeric(right))
    if one is None or other is None:
        return False
    return {"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[operator]
