"""Write expressions and conditions for people, as the language writes them."""

from __future__ import annotations

from towpath.queries.tree import (
    Argument,
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Expression,
    Membership,
    Metric,
    Negative,
    Number,
)


def argument_text(argument: Argument) -> str:
    """Return an argument with its condition and its origin."""
    value = expression_text(argument.value)
    origin = argument.insight or ", ".join(argument.streams)
    where = "" if argument.where is None else f" WHEN {condition_text(argument.where)}"
    return f"{value} of {origin}{where}"


def expression_text(expression: Expression) -> str:
    """Return a value of an event."""
    match expression:
        case Number(value):
            return f"{value:g}"
        case Metric(name):
            return name
        case Negative(value):
            return f"-{expression_text(value)}"
        case Arithmetic(operator, left, right):
            return f"({expression_text(left)} {operator} {expression_text(right)})"
        case Call(function, _, arguments):
            return f"{function}({', '.join(map(expression_text, arguments))})"
    raise AssertionError(f"no value of an event: {expression}")


def condition_text(condition: Condition) -> str:
    """Return a condition on an event."""
    match condition:
        case Both(left, right):
            return f"({condition_text(left)} AND {condition_text(right)})"
        case Either(left, right):
            return f"({condition_text(left)} OR {condition_text(right)})"
        case Membership(left, values):
            assert left is not None
            return f"{expression_text(left)} IN ({', '.join(map(_constant, values))})"
        case Comparison(left, operator, right):
            assert left is not None
            compared = _constant(right) if isinstance(right, str) else expression_text(right)
            return f"{expression_text(left)} {operator} {compared}"


def _constant(value: float | str) -> str:
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
