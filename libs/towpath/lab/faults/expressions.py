"""Conditions and values of fault rules as trees, and how a tree is written down again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

OWN_SITE = "site"
"""In place of a site's name: the site of the process where the condition is looked at."""


class Expression:
    """A node of the tree."""

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The nodes right below."""
        return ()


@dataclass(frozen=True)
class Literal(Expression):
    """A value that stands there."""

    value: str | int | float | bool | None


@dataclass(frozen=True)
class Listed(Expression):
    """Several values."""

    items: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Its values."""
        return self.items


@dataclass(frozen=True)
class Path(Expression):
    """Something that has a name, or what lies inside of it: `event.delays[0]`."""

    steps: tuple[str | int, ...]
    """The name; then keys, attributes and places."""


@dataclass(frozen=True)
class Called(Expression):
    """A function of values: `len(payload)`."""

    function: str
    arguments: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Its arguments."""
        return self.arguments


@dataclass(frozen=True)
class Shared(Expression):
    """What the mesh measures of a scope: `cpu_percent(jfk)`."""

    function: str
    site: str
    """`OWN_SITE`, or a scope."""


@dataclass(frozen=True)
class Negative(Expression):
    """A number with the other sign."""

    operand: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The number."""
        return (self.operand,)


@dataclass(frozen=True)
class Arithmetic(Expression):
    """`+`, `-`, `*`, `/` or `%`."""

    operator: str
    left: Expression
    right: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Comparison(Expression):
    """Two values compared."""

    operator: str
    """Among others `in` and `not in`."""
    left: Expression
    right: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """Both sides."""
        return (self.left, self.right)


@dataclass(frozen=True)
class Not(Expression):
    """Holds when the operand does not."""

    operand: Expression

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operand."""
        return (self.operand,)


@dataclass(frozen=True)
class And(Expression):
    """All of several."""

    operands: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operands."""
        return self.operands


@dataclass(frozen=True)
class Or(Expression):
    """Any of several."""

    operands: tuple[Expression, ...]

    @property
    def parts(self) -> tuple[Expression, ...]:
        """The operands."""
        return self.operands


class Occurrence(Expression):
    """A condition on which time it is, not on what is there."""


@dataclass(frozen=True)
class Every(Occurrence):
    """The n-th time, the 2n-th time, and so on."""

    n: int


@dataclass(frozen=True)
class Probability(Occurrence):
    """Each time with this probability."""

    p: float


@dataclass(frozen=True)
class First(Occurrence):
    """As long as the rule has acted fewer times."""

    n: int


@dataclass(frozen=True)
class Between(Occurrence):
    """Only from `start` until `end`, seconds since the rule was loaded; null is no end."""

    start: float
    end: float | None


def walk(expression: Expression) -> Iterator[tuple[Expression, int]]:
    """The node and all below it, each with its depth, from 1. Works for trees of any depth."""
    waiting = [(expression, 1)]
    while waiting:
        node, depth = waiting.pop()
        yield node, depth
        waiting.extend((part, depth + 1) for part in reversed(node.parts))


_LOOSEST, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _TIGHTEST = range(8)


def printed(expression: Expression) -> str:
    """The text of a tree: reading it gives the same tree."""
    return _printed(expression, _LOOSEST)


def _printed(node: Expression, around: int) -> str:
    """`node` where operators that bind as tightly as `around` stand beside it."""
    text, binding = _text_and_binding(node)
    return f"({text})" if binding < around else text


def _text_and_binding(node: Expression) -> tuple[str, int]:
    match node:
        case Or(operands):
            return " or ".join(_printed(operand, _AND) for operand in operands), _LOOSEST
        case And(operands):
            return " and ".join(_printed(operand, _NOT) for operand in operands), _AND
        case Not(operand):
            return f"not {_printed(operand, _NOT)}", _NOT
        case Comparison(operator, left, right):
            return f"{_printed(left, _SUM)} {operator} {_printed(right, _SUM)}", _COMPARISON
        case Arithmetic(operator, left, right):
            binding = _SUM if operator in "+-" else _PRODUCT
            return f"{_printed(left, binding)} {operator} {_printed(right, binding + 1)}", binding
        case Negative(operand):
            return f"-{_printed(operand, _SIGN)}", _SIGN
        case Occurrence():
            return _printed_occurrence(node), _COMPARISON
        case Literal(value) if isinstance(value, int | float) and not isinstance(value, bool) and value < 0:
            return repr(value), _SIGN
        case _:
            return _printed_primary(node), _TIGHTEST


def _printed_occurrence(node: Occurrence) -> str:
    match node:
        case Every(n):
            return f"every {n}"
        case Probability(p):
            return f"probability {p!r}"
        case First(n):
            return "once" if n == 1 else f"first {n}"
        case Between(start, None):
            return f"after {duration(start)}"
        case Between(start, end) if start == 0 and end is not None:
            return f"before {duration(end)}"
        case Between(start, end) if end is not None:
            return f"between {duration(start)} and {duration(end)}"
    raise TypeError(f"no text for {node!r}")


def _printed_primary(node: Expression) -> str:
    match node:
        case Literal(value):
            return _printed_literal(value)
        case Listed(items):
            return f"[{', '.join(map(printed, items))}]"
        case Called(function, arguments):
            return f"{function}({', '.join(map(printed, arguments))})"
        case Shared(function, site):
            return f"{function}({site if _is_plain_name(site) else quoted(site)})"
        case Path(steps):
            return f"{steps[0]}{''.join(map(_printed_step, steps[1:]))}"
    raise TypeError(f"no text for {node!r}")


def _printed_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _is_plain_name(step) else f"[{quoted(step)}]"


def _is_plain_name(text: str) -> bool:
    return text.isidentifier() and text.isascii() and not text.startswith("_")


def _printed_literal(value: str | int | float | bool | None) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else repr(value)


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quoted(text: str) -> str:
    """A text in quotes, as conditions have it."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def duration(seconds: float) -> str:
    """A time span as conditions have it. Exact: reading it gives the same number."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds!r}s"
