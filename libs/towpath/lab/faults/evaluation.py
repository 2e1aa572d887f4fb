"""Turns trees of expressions into functions that look at one occurrence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import re2

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.faults.expressions import (
    OWN_SITE,
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
    Shared,
)
from towpath.lab.faults.operations import COMPARISONS, VALUES, as_bytes, calculate, negative
from towpath.lab.faults.scope import ROOTS, Scope, inside
from towpath.lab.faults.vocabulary import COUNTER

Value = Callable[[Scope], Any]
Test = Callable[[Scope], bool]

MAX_PATTERN = 500
"""Characters of a regular expression."""

_PATTERN_BYTES = 1 << 20
"""Memory that a compiled pattern may take. RE2 takes time that grows with the text, not exponentially."""

TESTS = (And, Or, Not, Comparison, Every, Probability, First, Between)
"""Nodes that hold or do not; of any other the value has to be `true`."""


def test_of(node: Expression, chances: Mapping[int, int]) -> Test:
    """Whether the node holds; `chances` numbers the probabilities in it, by the nodes' `id`."""
    match node:
        case And(operands) | Or(operands):
            return _junction([test_of(operand, chances) for operand in operands], isinstance(node, And))
        case Not(operand):
            inner = test_of(operand, chances)
            return lambda scope: not inner(scope)
        case Comparison():
            return _comparison(node, chances)
        case Every(n):
            return lambda scope: scope.count % n == 0
        case First(n):
            return lambda scope: scope.acted < n
        case Between(start, None):
            return lambda scope: scope.elapsed >= start
        case Between(start, end) if end is not None:
            return lambda scope: start <= scope.elapsed < end
        case Probability():
            number = chances[id(node)]
            return lambda scope: bool(scope.chances[number].picks(scope.count - 1, scope.count))
    value = value_of(node, chances)
    return lambda scope: value(scope) is True


def _junction(tests: list[Test], both: bool) -> Test:
    if both:
        return lambda scope: all(test(scope) for test in tests)
    return lambda scope: any(test(scope) for test in tests)


def _comparison(node: Comparison, chances: Mapping[int, int]) -> Test:
    left = value_of(node.left, chances)
    if node.operator == "matches":
        match = matcher(node)
        return lambda scope: match(left(scope))
    compare, right = COMPARISONS[node.operator], value_of(node.right, chances)
    return lambda scope: compare(left(scope), right(scope))


def matcher(node: Comparison) -> Callable[[Any], bool]:
    """Whether a value is a text in which the pattern of a comparison with `matches` occurs.

    Raises `TowpathError` (invalid): no pattern, or one that RE2 does not know.
    """
    pattern = node.right.value if isinstance(node.right, Literal) else None
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN:
        allowed = f"a text in quotes, at most {MAX_PATTERN} characters"
        raise TowpathError(ErrorCode.INVALID, "`matches` has no such pattern", value=pattern, allowed=allowed)
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        search = re2.compile(pattern, options).search
    except re2.error as error:
        what = error.args[0].decode("utf-8", "replace") if error.args else "it does not compile"
        raise TowpathError(
            ErrorCode.INVALID, f"not a regular expression: {what}", value=pattern, allowed="RE2's syntax"
        ) from None

    def matches(value: Any) -> bool:
        content = as_bytes(value)
        return content is not None and search(content) is not None

    return matches


def value_of(node: Expression, chances: Mapping[int, int]) -> Value:
    """What the node is worth."""
    match node:
        case Literal(value):
            return lambda scope: value
        case Path(steps):
            return _path(steps)
        case Listed(items):
            values = [value_of(item, chances) for item in items]
            return lambda scope: [value(scope) for value in values]
        case Negative(operand):
            number = value_of(operand, chances)
            return lambda scope: negative(number(scope))
        case Arithmetic(sign, left, right):
            one, other = value_of(left, chances), value_of(right, chances)
            return lambda scope: calculate(sign, one(scope), other(scope))
        case Called(function, arguments):
            return _call(function, arguments, chances)
        case Shared(function, site):
            asked = None if site == OWN_SITE else site
            return lambda scope: scope.measured(function, asked)
    return test_of(node, chances)


def _path(steps: tuple[str | int, ...]) -> Value:
    name = str(steps[0])
    root = ROOTS.get(name) or (lambda scope: scope.named(name))
    match steps[1:]:
        case ():
            return root
        case (step,):
            return lambda scope: inside(root(scope), step)
        case rest:
            return lambda scope: _inside_all(root(scope), rest)


def _inside_all(value: Any, steps: tuple[str | int, ...]) -> Any:
    for step in steps:
        value = inside(value, step)
    return value


def _call(function: str, arguments: tuple[Expression, ...], chances: Mapping[int, int]) -> Value:
    if function == COUNTER:
        (named,) = arguments
        name = str(named.value) if isinstance(named, Literal) else ""
        return lambda scope: scope.count_up(name)
    call, values = VALUES[function], [value_of(argument, chances) for argument in arguments]
    return lambda scope: call(*[value(scope) for value in values])
