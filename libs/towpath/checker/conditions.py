"""The condition of a filter, in the part of SQL that jobs use most: comparisons, `and`, `or`, `not`, `in`.

Read with Python's own parser and compiled from a list of what is allowed; nothing is evaluated.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from towpath.contracts.errors import ErrorCode, TowpathError

Condition = Callable[[Mapping[str, Any]], bool | None]
"""From an event to whether the condition holds; None when a missing value leaves it open, as in SQL."""

ALLOWED = "fields, numbers, 'texts', = <> < <= > >=, in (…), is null, is not null, + - * /, and, or, not, ( )"

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^']|'')*'|"[^"]*")
    | (?P<sign><>|!=|<=|>=|==|=)
    | (?P<word>[A-Za-z_][\w.]*)
    | (?P<rest>\d[\w.]*|\s+|.)""",
    re.S | re.X,
)
_WORDS = {"and": "and", "or": "or", "not": "not", "in": "in", "is": "is", "null": "None"}
_WORDS |= {"true": "True", "false": "False"}
_SIGNS = {"<>": "!=", "=": "=="}

_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}

_Value = Callable[[Mapping[str, Any]], Any]


def condition(text: str) -> tuple[Condition, list[str]]:
    """The condition and the fields it reads. Raises `TowpathError` (invalid) naming the part that is not
    allowed."""
    try:
        tree = ast.parse(_as_python(text).strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise _refused(text, text) from error
    compiler = _Compiler(text)
    holds = compiler.compile(tree)
    return (lambda event: _truth(holds(event))), sorted(compiler.fields)


def _as_python(text: str) -> str:
    """SQL's spellings as Python's. Field names become subscripts: they may be words of Python's."""
    parts: list[str] = []
    for match in _TOKEN.finditer(text):
        kind, part = match.lastgroup, match.group(0)
        if kind == "text":
            part = repr(part[1:-1].replace("''", "'"))
        elif kind == "sign":
            part = _SIGNS.get(part, part)
        elif kind == "word":
            part = _WORDS.get(part.lower(), f"_[{part!r}]")
        parts.append(part)
    return "".join(parts)


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _refused(text: str, part: str) -> TowpathError:
    return TowpathError(
        ErrorCode.INVALID, f"not a condition: {part!r}", field="where", value=text, allowed=ALLOWED
    )


class _Compiler:
    """Makes closures of a syntax tree."""

    def __init__(self, text: str) -> None:
        self.fields: set[str] = set()
        self._text = text

    def compile(self, node: ast.expr) -> _Value:
        if isinstance(node, ast.BoolOp):
            parts = [self.compile(value) for value in node.values]
            return _any(parts) if isinstance(node.op, ast.Or) else _all(parts)
        if isinstance(node, ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._comparison(node.left, node.ops[0], node.comparators[0])
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _strict(_ARITHMETIC[type(node.op)], self.compile(node.left), self.compile(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float | bool | None):
            constant = node.value
            return lambda event: constant
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return self._field(node)
        self._refuse(node)

    def _field(self, node: ast.Subscript) -> _Value:
        assert isinstance(node.slice, ast.Constant)
        name = node.slice.value
        if not isinstance(node.value, ast.Name) or not isinstance(name, str):
            self._refuse(node)
        self.fields.add(name)
        return lambda event: event.get(name)

    def _unary(self, node: ast.UnaryOp) -> _Value:
        part = self.compile(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda event: None if (truth := _truth(part(event))) is None else not truth
        if isinstance(node.op, ast.USub):
            return _strict(lambda value, _: -value, part, part)
        self._refuse(node)

    def _comparison(self, left: ast.expr, sign: ast.cmpop, right: ast.expr) -> _Value:
        value = self.compile(left)
        if isinstance(sign, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
            wanted = isinstance(sign, ast.Is)
            return lambda event: (value(event) is None) is wanted
        if isinstance(sign, ast.In | ast.NotIn):
            return self._membership(value, isinstance(sign, ast.In), right)
        if type(sign) not in _COMPARISONS:
            self._refuse(right)
        return _strict(_COMPARISONS[type(sign)], value, self.compile(right))

    def _membership(self, value: _Value, wanted: bool, right: ast.expr) -> _Value:
        members = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        constants = [member.value for member in members if isinstance(member, ast.Constant)]
        if len(constants) != len(members):
            self._refuse(right)
        return lambda event: None if (held := value(event)) is None else (held in constants) is wanted

    def _refuse(self, node: ast.expr) -> NoReturn:
        raise _refused(self._text, ast.unparse(node))


def _strict(function: Callable[[Any, Any], Any], left: _Value, right: _Value) -> _Value:
    """The function of two values; None where one is missing or they do not go together."""

    def value(event: Mapping[str, Any]) -> Any:
        ours, theirs = left(event), right(event)
        if ours is None or theirs is None:
            return None
        try:
            return function(ours, theirs)
        except (TypeError, ArithmeticError):
            return None

    return value


def _all(parts: list[_Value]) -> _Value:
    def value(event: Mapping[str, Any]) -> bool | None:
        found = [_truth(part(event)) for part in parts]
        return False if False in found else None if None in found else True

    return value


def _any(parts: list[_Value]) -> _Value:
    def value(event: Mapping[str, Any]) -> bool | None:
        found = [_truth(part(event)) for part in parts]
        return True if True in found else None if None in found else False

    return value
