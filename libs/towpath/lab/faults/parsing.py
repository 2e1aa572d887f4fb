"""Reads conditions and values of fault rules. Says where one is wrong, and what may stand there."""

from __future__ import annotations

import math
import re
from functools import cache, reduce
from pathlib import Path as FilePath
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, v_args

from towpath.contracts.errors import ErrorCode, TowpathError
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
    Shared,
    walk,
)
from towpath.lab.faults.syntax_errors import at, nearest, unexpected
from towpath.lab.faults.vocabulary import COUNTER, KEYWORDS, SHARED_FUNCTIONS, VALUE_FUNCTIONS

MAX_CHARACTERS = 2_000
"""Of one expression."""

MAX_DEPTH = 40
"""Of one expression: far above what people write, far below what Python's stack holds."""

LARGEST_INTEGER = 2**63
_LONGEST_S = 366 * 24 * 3600.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parsed(text: str, field: str = "condition") -> Expression:
    """The tree of a text. Raises `TowpathError` (invalid) naming the place and what may stand there."""
    if len(text) > MAX_CHARACTERS:
        raise _refused(f"has {len(text)} characters", text, field, f"at most {MAX_CHARACTERS} characters")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise _refused(
            "has half a character (a lone surrogate)", text.encode("utf-8", "replace").decode(), field
        )
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise unexpected(error, text, field) from None
    except _MisuseError as error:
        raise at(error.place, error.message, text, field, error.allowed) from None
    if max(depth for _, depth in walk(tree)) > MAX_DEPTH:
        raise _refused("is nested too deeply", text, field, f"at most {MAX_DEPTH} levels")
    return tree


@cache
def _parser() -> Any:
    grammar = FilePath(__file__).with_name("conditions.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", transformer=_ToExpressions())


class _MisuseError(Exception):
    """The form is right, what stands there is not."""

    def __init__(self, token: Token, message: str, allowed: str | list[str] | None = None) -> None:
        super().__init__(message)
        self.place = token.start_pos or 0
        self.message = message
        self.allowed = allowed


def _number(token: Token) -> int | float:
    if token.isdecimal():
        if len(token) > 19 or int(token) >= LARGEST_INTEGER:
            raise _MisuseError(token, "is too large", "integers below 2^63")
        return int(token)
    if not math.isfinite(float(token)):
        raise _MisuseError(token, "is too large", "finite numbers")
    return float(token)


def _whole_number(token: Token) -> int:
    number = _number(token)
    if not isinstance(number, int) or number < 1:
        raise _MisuseError(token, f"{token} is no number of times", "whole numbers from 1")
    return number


def _span(token: Token) -> float:
    unit = token.lstrip("0123456789.eE+-")
    seconds = float(token.removesuffix(unit)) * _SECONDS[unit]
    if not seconds <= _LONGEST_S:
        raise _MisuseError(token, f"{token} is too long", "at most a year")
    return seconds


_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_MEANT = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def _unquoted(token: Token) -> str:
    """The text in quotes. A backslash that escapes nothing stays: regular expressions need no second one."""

    def meant(match: re.Match[str]) -> str:
        code, character = match.groups()
        if code is None:
            return _MEANT.get(character, match.group())
        if 0xD800 <= int(code, 16) <= 0xDFFF:
            raise _MisuseError(token, f"\\u{code} is half a character", "whole characters")
        return chr(int(code, 16))

    return _ESCAPED.sub(meant, token[1:-1])


@v_args(inline=True)
class _ToExpressions(Transformer[Token, Expression]):
    """Called by the parser with each part it has read; names are those of the grammar."""

    def disjunction(self, *operands: Expression) -> Expression:
        return Or(operands)

    def conjunction(self, *operands: Expression) -> Expression:
        return And(operands)

    def negated(self, operand: Expression) -> Expression:
        return Not(operand)

    def every(self, n: Token) -> Expression:
        return Every(_whole_number(n))

    def probability(self, p: Token) -> Expression:
        if not 0 <= _number(p) <= 1:
            raise _MisuseError(p, f"{p} is no probability", "0 to 1")
        return Probability(float(p))

    def once(self) -> Expression:
        return First(1)

    def first(self, n: Token) -> Expression:
        return First(_whole_number(n))

    def after(self, start: Token) -> Expression:
        return Between(_span(start), None)

    def before(self, end: Token) -> Expression:
        return Between(0.0, _span(end))

    def between(self, start: Token, end: Token) -> Expression:
        if not _span(start) < _span(end):
            raise _MisuseError(end, "ends before it begins", f"more than {start}")
        return Between(_span(start), _span(end))

    def compared(self, left: Expression, operator: Token, right: Expression) -> Expression:
        return Comparison(str(operator), left, right)

    def compared_not(self, left: Expression, operator: Token, right: Expression) -> Expression:
        return Comparison(f"not {operator}", left, right)

    def folded(self, first: Expression, *rest: Any) -> Expression:
        pairs = zip(rest[::2], rest[1::2], strict=True)
        return reduce(lambda left, pair: Arithmetic(str(pair[0]), left, pair[1]), pairs, first)

    def signed(self, sign: Token, operand: Expression) -> Expression:
        if sign == "+":
            return operand
        number = operand.value if isinstance(operand, Literal) else None
        if isinstance(number, int | float) and not isinstance(number, bool) and number != 0:
            return Literal(-number)
        return Negative(operand)

    def number(self, token: Token) -> Expression:
        return Literal(_number(token))

    def text(self, token: Token) -> Expression:
        return Literal(_unquoted(token))

    def true(self) -> Expression:
        return Literal(True)

    def false(self) -> Expression:
        return Literal(False)

    def null(self) -> Expression:
        return Literal(None)

    def listed(self, *items: Expression | None) -> Expression:
        return Listed(tuple(item for item in items if item is not None))

    def called(self, name: Token, *arguments: Expression | None) -> Expression:
        return _call(name, tuple(argument for argument in arguments if argument is not None))

    def path(self, name: Token, *steps: str | int) -> Expression:
        if name.startswith("_") or name in KEYWORDS:
            raise _MisuseError(name, f"`{name}` is no name", "names without a leading underscore")
        return Path((str(name), *steps))

    def step_name(self, name: Token) -> str:
        if name.startswith("_"):
            raise _MisuseError(name, f"`{name}` is private", f'the key of an object: ["{name}"]')
        return str(name)

    def step_index(self, place: Token) -> int:
        return _place(place)

    def step_index_signed(self, sign: Token, place: Token) -> int:
        return -_place(place) if sign == "-" else _place(place)

    def step_key(self, key: Token) -> str:
        return _unquoted(key)


def _place(token: Token) -> int:
    number = _number(token)
    if not isinstance(number, int):
        raise _MisuseError(token, f"{token} is no place in a list", "whole numbers")
    return number


def _call(name: Token, arguments: tuple[Expression, ...]) -> Expression:
    if name in SHARED_FUNCTIONS:
        match arguments:
            case (Path(steps=(str(site),)),) | (Literal(str(site)),):
                return Shared(str(name), site)
        raise _MisuseError(name, f"{name} asks about one scope", ["site", "jfk", '"a-name"'])
    if name == COUNTER:
        match arguments:
            case (Literal(str()),):
                return Called(COUNTER, arguments)
        raise _MisuseError(name, "a counter has a name in quotes", f'{COUNTER}("name")')
    if name not in VALUE_FUNCTIONS:
        known = [*VALUE_FUNCTIONS, COUNTER, *SHARED_FUNCTIONS]
        raise _MisuseError(name, f"there is no function `{name}`{nearest(name, known)}", known)
    fewest, most, _ = VALUE_FUNCTIONS[name]
    if len(arguments) < fewest or (most is not None and len(arguments) > most):
        wanted = str(fewest) if most == fewest else f"at least {fewest}"
        raise _MisuseError(name, f"{name} has {len(arguments)} arguments", f"{wanted} of them")
    return Called(str(name), arguments)


def _refused(what: str, text: str, field: str, allowed: str | None = None) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID, f"the expression {what}", field=field, value=text[:200], allowed=allowed
    )
