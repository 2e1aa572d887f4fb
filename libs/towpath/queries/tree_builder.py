"""Make the tree of a text, from its leaves up. Lark calls a method for each rule of the grammar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lark import Token, Transformer, v_args

from towpath.queries.functions import NAMES, Form, Function
from towpath.queries.options import options_of
from towpath.queries.problems import problem
from towpath.queries.tree import (
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    CountWindow,
    Either,
    Expression,
    Filtered,
    Grouping,
    Insight,
    Membership,
    Metric,
    Negative,
    Number,
    Place,
    QueryText,
    Stream,
    TimeWindow,
    Window,
)

_UNITS = {
    **dict.fromkeys(("MILLIS", "MILLISECONDS"), (True, 1_000)),
    **dict.fromkeys(("SECONDS", "SECOND"), (True, 1_000_000)),
    **dict.fromkeys(("MINUTES", "MINUTE"), (True, 60_000_000)),
    **dict.fromkeys(("HOURS", "HOUR"), (True, 3_600_000_000)),
    **dict.fromkeys(("DAYS", "DAY"), (True, 86_400_000_000)),
    **dict.fromkeys(("EVENTS", "EVENT", "TUPLES"), (False, 1)),
}
UNIT_OF = {
    **_UNITS,
    **{name.lower(): unit for name, unit in _UNITS.items()},
    **{"ms": (True, 1_000), "s": (True, 1_000_000), "m": (True, 60_000_000), "h": (True, 3_600_000_000)},
    **{"D": (False, 10), "H": (False, 100), "K": (False, 1_000), "M": (False, 1_000_000)},
}
"""Unit → is it a length of time, and how many microseconds or events. A small letter is a length of time, and
a capital a number of events: `5 m` and `5 M`."""

_STEP_MICROS = 10_000
MAX_MICROS = 366 * 86_400_000_000
_MAX_EVENTS = 10_000_000
_MAX_DIGITS = 15
_GEOHASH = 12
"""Characters of the finest geohash, a square of 37 by 19 mm."""

_KEYWORDS = {"when": "WHEN", "every": "EVERY", "by": "BY", "options": "WITH"}
_SIGNS = {"≥": ">=", "≤": "<="}


@dataclass(frozen=True)
class _Word:
    """A name or a quoted text, with its place."""

    text: str
    place: Place
    is_quoted: bool


@dataclass(frozen=True)
class _Clause:
    """A clause, by the name of its field of `Insight`."""

    name: str
    value: Any


@dataclass
class _Composition:
    """An expression with clauses."""

    expression: Any
    clauses: dict[str, Any] = field(default_factory=dict)
    repeated: str | None = None
    """A clause that stands twice."""


def tree_builder() -> Transformer[Token, QueryText]:
    """Return what makes the tree. It raises `TowpathError` for what the grammar cannot refuse."""
    return _TreeBuilder()


@v_args(inline=True)
class _TreeBuilder(Transformer[Token, QueryText]):
    def start(self, *statements: Stream | Insight) -> QueryText:
        streams = tuple(one for one in statements if isinstance(one, Stream))
        return QueryText(streams, tuple(one for one in statements if isinstance(one, Insight)))

    def stream(self, name: Token, provider: Token, *parameters: tuple[_Word, Any] | None) -> Stream:
        given: dict[str, str | float] = {}
        for key, value in (one for one in parameters if one is not None):
            if key.text in given:
                raise problem(key.place, f"{key.text!r} is given twice", found=key.text)
            given[key.text] = value
        return Stream(str(name), str(provider), given, place=_place(name))

    def parameter(self, name: _Word, value: str | float) -> tuple[_Word, str | float]:
        return name, value

    def insight(self, name: Token, made: _Composition) -> Insight:
        if made.repeated:
            what = f"the query {str(name)!r} has two {made.repeated}"
            raise problem(_place(name), what, found=made.repeated, allowed="each clause once")
        return Insight(str(name), _plain(made.expression, name), **made.clauses, place=_place(name))

    def composition(self, expression: Any, *clauses: _Clause) -> _Composition:
        made = expression if isinstance(expression, _Composition) else _Composition(expression)
        for clause in clauses:
            if clause.name in made.clauses:
                made.repeated = _KEYWORDS[clause.name]
            made.clauses[clause.name] = clause.value
        return made

    def nested(self, composition: _Composition) -> Any:
        return composition if composition.clauses else composition.expression

    def when(self, condition: Condition) -> _Clause:
        return _Clause("when", condition)

    def every(self, window: Window) -> _Clause:
        return _Clause("every", window)

    def by(self, *groupings: Grouping) -> _Clause:
        return _Clause("by", groupings)

    def by_field(self, name: _Word) -> Grouping:
        return Grouping((name.text,), place=name.place)

    def by_square(self, function: Token, characters: Token, latitude: _Word, longitude: _Word) -> Grouping:
        if function.upper() != "GEOHASH":
            what = "answers are grouped by fields, or by the squares of a map"
            raise problem(_place(function), what, found=str(function), allowed=["GEOHASH"])
        if not 1 <= _whole(characters) <= _GEOHASH:
            what = "a geohash has 1 to 12 characters"
            raise problem(_place(characters), what, found=str(characters), allowed="1 to 12")
        return Grouping((latitude.text, longitude.text), _whole(characters), place=_place(function))

    def options(self, *given: tuple[Token, Any]) -> _Clause:
        return _Clause("options", options_of([(str(name), value, _place(name)) for name, value in given]))

    def option(self, name: Token, value: float | str) -> tuple[Token, float | str]:
        return name, value

    def window(self, length: Token, unit: Token) -> Window:
        return _window(length, unit)

    def call(self, name: Token, parameters: tuple[float, ...] | None, *arguments: Any) -> Call:
        function = _function(name)
        windows = [one for one in arguments if isinstance(one, TimeWindow | CountWindow)]
        values = tuple(
            _plain(one, name) for one in arguments if not isinstance(one, TimeWindow | CountWindow)
        )
        if arguments[len(values) :] != tuple(windows):
            raise problem(_place(name), f"{function.name} takes its window last", allowed=_usage(function))
        _check_call(function, parameters or (), values, windows, name)
        window, offset = [*windows, None, None][:2]
        assert not isinstance(offset, CountWindow)
        return Call(function.name, parameters or (), values, window, offset, place=_place(name))

    def numbers(self, *values: float) -> tuple[float, ...]:
        return values

    def filtered(self, value: Any, condition: Condition) -> Filtered:
        return Filtered(value, condition)

    def arithmetic(self, left: Any, operator: Token, right: Any) -> Arithmetic:
        return Arithmetic(
            str(operator), _plain(left, operator), _plain(right, operator), place=_place(operator)
        )

    def negative(self, value: Any) -> Expression:
        return Number(-value.value) if isinstance(value, Number) else Negative(_plain(value, None))

    def metric(self, name: _Word, streams: tuple[str, ...] | None) -> Metric:
        return Metric(name.text, streams or (), is_quoted=name.is_quoted, place=name.place)

    def insight_input(self, name: Token) -> Metric:
        return Metric(str(name), is_insight=True, place=_place(name))

    def streams(self, *names: Token) -> tuple[str, ...]:
        return tuple(str(name) for name in names)

    def either(self, left: Condition, right: Condition) -> Either:
        return Either(left, right)

    def both(self, left: Condition, right: Condition) -> Both:
        return Both(left, right)

    def comparison(self, left: Any, operator: Token, right: Any) -> Comparison:
        is_text = isinstance(right, Metric) and right.is_quoted and not right.streams
        given = None if left is None else _plain(left, operator)
        compared = right.name if is_text else _plain(right, operator)
        return Comparison(given, _SIGNS.get(operator, str(operator)), compared, place=_place(operator))

    def membership(self, left: Any, *values: float | str) -> Membership:
        return Membership(None if left is None else _plain(left, None), values)

    def name(self, token: Token) -> _Word:
        is_quoted = token.type == "STRING"
        return _Word(str(token)[1:-1] if is_quoted else str(token), _place(token), is_quoted)

    def text(self, token: Token) -> str:
        return str(token)[1:-1]

    def text_of_name(self, token: Token) -> str:
        return str(token)

    def number(self, token: Token) -> Number:
        return Number(_number(token))

    def signed(self, sign: Token | None, token: Token) -> float:
        return -_number(token) if sign == "-" else _number(token)


def _place(token: Token) -> Place:
    return Place(token.line or 1, token.column or 1)


def _plain(value: Any, beside: Token | None) -> Expression:
    """The expression, if it is one: clauses of a part of it have no meaning."""
    if isinstance(value, _Composition):
        what = "clauses belong to the whole query, not to a part of what it computes"
        place = Place(1, 1) if beside is None else _place(beside)
        raise problem(place, what, allowed="clauses behind the whole expression")
    return value


def _number(token: Token) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise problem(
            _place(token), "the number is too large", found=str(token)[:20], allowed="up to 1.7e308"
        )
    return value


def _whole(token: Token) -> int:
    if len(token) > _MAX_DIGITS:
        raise problem(
            _place(token), "the number is too large", found=str(token)[:20], allowed=f"{_MAX_DIGITS} digits"
        )
    return int(token)


def _window(length: Token, unit: Token) -> Window:
    number, word = _whole(length), UNIT_OF.get(str(unit))
    if word is None:
        what = "a length of time or a number of events needs a unit"
        raise problem(_place(unit), what, found=str(unit), allowed=[*UNIT_OF])
    is_time, factor = word
    largest = MAX_MICROS if is_time else _MAX_EVENTS
    if not 0 < number * factor <= largest or (is_time and number * factor % _STEP_MICROS):
        allowed = "10 ms to 366 days, in steps of 10 ms" if is_time else f"1 to {_MAX_EVENTS:,} events"
        raise problem(_place(length), "a window has a length", found=f"{length} {unit}", allowed=allowed)
    return TimeWindow(number * factor) if is_time else CountWindow(number * factor)


def _function(name: Token) -> Function:
    function = NAMES.get(name.upper())
    if function is None:
        raise problem(
            _place(name), f"there is no function {str(name)!r}", found=str(name).upper(), allowed=[*NAMES]
        )
    return function


def _check_call(
    function: Function,
    parameters: Sequence[float],
    values: Sequence[Any],
    windows: Sequence[Window],
    name: Token,
) -> None:
    place, usage = _place(name), _usage(function)
    if len(parameters) != len(function.parameters):
        needed = ", ".join(one.name for one in function.parameters) or "none"
        raise problem(place, f"{function.name} has these parameters in brackets: {needed}", allowed=usage)
    for parameter, value in zip(function.parameters, parameters, strict=True):
        if not parameter.fits(value):
            what = f"the {parameter.name} of {function.name} is out of range"
            raise problem(place, what, found=value, allowed=parameter.allowed)
    if len(values) != function.arguments:
        raise problem(
            place, f"{function.name} takes {function.arguments} value(s)", found=len(values), allowed=usage
        )
    most = 2 if function.form is Form.WINDOWED else 0
    if not (1 if most else 0) <= len(windows) <= most:
        what = f"{function.name} needs a window" if most else f"{function.name} takes no window"
        raise problem(place, what, allowed=usage)
    if len(windows) == 2 and isinstance(windows[1], CountWindow):
        raise problem(
            place, "the second length says how long ago the window ended", allowed="a length of time"
        )


def _usage(function: Function) -> str:
    """An example of how a function is written."""
    brackets = f"[{', '.join(one.name for one in function.parameters)}]" if function.parameters else ""
    values = ["metric"] if function.arguments == 1 else ["metric", "metric"]
    window = ["10 SECONDS"] if function.form is Form.WINDOWED else []
    return f"{function.name}{brackets}({', '.join([*values, *window])})"
