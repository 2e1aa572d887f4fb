"""Conditions in words."""

from __future__ import annotations

from towpath.lab.faults.expressions import (
    And,
    Between,
    Comparison,
    Every,
    Expression,
    First,
    Literal,
    Not,
    Or,
    Probability,
    printed,
)

_WORDS = {
    "==": "is",
    "!=": "is not",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is in",
    "not in": "is not in",
    "contains": "contains",
    "startswith": "starts with",
    "endswith": "ends with",
    "matches": "matches",
}


def described(node: Expression) -> str:
    """What a condition says, as the part of a sentence that follows "if"."""
    match node:
        case And(operands):
            return ", and ".join(_grouped(operand) for operand in operands)
        case Or(operands):
            return ", or ".join(_grouped(operand) for operand in operands)
        case Not(operand):
            return f"it is not so that {_grouped(operand)}"
        case Comparison(operator, left, right):
            return f"{printed(left)} {_WORDS[operator]} {printed(right)}"
        case Literal(True):
            return "anything happens"
        case Literal(False):
            return "never"
    return _occurrence(node) or f"{printed(node)} is true"


def _grouped(node: Expression) -> str:
    return f"({described(node)})" if isinstance(node, And | Or) else described(node)


def _occurrence(node: Expression) -> str | None:
    match node:
        case Every(1):
            return "anything happens"
        case Every(n):
            return f"it is the {ordinal(n)} time, the {ordinal(2 * n)}, and so on"
        case Probability(p):
            return f"chance decides so, {p * 100:g} times in 100"
        case First(1):
            return "the rule has not acted yet"
        case First(n):
            return f"the rule has acted fewer than {n:,} times"
        case Between(start, None):
            return f"the rule was loaded at least {_span(start)} ago"
        case Between(0.0, end) if end is not None:
            return f"the rule was loaded less than {_span(end)} ago"
        case Between(start, end) if end is not None:
            return f"the rule was loaded {_span(start)} to {_span(end)} ago"
    return None


def ordinal(n: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th…"""
    ending = "th" if n // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n:,}{ending}"


def _span(seconds: float) -> str:
    return f"{seconds * 1000:g} ms" if 0 < seconds < 1 else f"{seconds:g} s"
