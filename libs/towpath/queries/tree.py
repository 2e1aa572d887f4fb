"""The tree of a query text: what was written, without its meaning. `checking` finds the meaning.

Trees are compared by what they say: the place in the text does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class Place:
    """A position in a text, both from 1."""

    line: int
    column: int


_TOP = Place(1, 1)


@dataclass(frozen=True)
class TimeWindow:
    """The events of a length of time."""

    micros: int


@dataclass(frozen=True)
class CountWindow:
    """The newest events of a key, by their number."""

    events: int


Window = TimeWindow | CountWindow


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True)
class Metric:
    """A field of events: `"cpu_ptc" FROM (cpu_stream)`, or a bare name, whose meaning `checking` finds."""

    name: str
    streams: tuple[str, ...] = ()
    """Names in `FROM (…)`; none for a bare name."""
    is_insight: bool = False
    """Written as `INSIGHT name`."""
    is_quoted: bool = field(default=False, compare=False, repr=False)
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Call:
    """A function with its arguments: `PERCENTILE[95](delay, 10 MINUTES)`."""

    function: str
    """As `functions` names it, whichever synonym was written."""
    parameters: tuple[float, ...]
    """In brackets behind the name."""
    arguments: tuple[Expression, ...]
    window: Window | None = None
    offset: TimeWindow | None = None
    """Distance of the window's end from the moment of evaluation, into the past."""
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Arithmetic:
    """Two values and one of `+ - * / %`."""

    operator: str
    left: Expression
    right: Expression
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Negative:
    """A value with its sign changed."""

    value: Expression


@dataclass(frozen=True)
class Filtered:
    """An argument of a function of which only some events count: `delay WHEN > 15`."""

    value: Expression
    where: Condition


VALUE = "VALUE"
"""The function of a metric or insight that stands alone."""


@dataclass(frozen=True)
class Argument:
    """The one number or text that a function sees of each event, if there is one."""

    streams: tuple[str, ...]
    """Names of sources. None if the events are the answers of `insight`."""
    value: Expression
    """Over fields of the event, as `Metric`; of an answer, over its one field `value`."""
    where: Condition | None = None
    """Over fields of the event. Events for which it does not hold have no value."""
    insight: str | None = None


@dataclass(frozen=True)
class Use:
    """A function whose arguments are understood. `checking` puts it in place of a `Call` or `Metric`."""

    function: str
    """`VALUE` is the newest value."""
    parameters: tuple[float, ...]
    arguments: tuple[Argument, ...]
    window: Window | None = None
    offset_micros: int = 0


Expression = Use | Number | Metric | Call | Arithmetic | Negative | Filtered


@dataclass(frozen=True)
class Comparison:
    """`left operator right`; without `left` the value that the condition is about."""

    left: Expression | None
    operator: str
    right: Expression | str
    """A text only where a field of events is compared."""
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Membership:
    """`left IN (…)`; without `left` the value that the condition is about."""

    left: Expression | None
    values: tuple[float | str, ...]


@dataclass(frozen=True)
class Both:
    """Two conditions and `AND`."""

    left: Condition
    right: Condition


@dataclass(frozen=True)
class Either:
    """Two conditions and `OR`."""

    left: Condition
    right: Condition


Condition = Comparison | Membership | Both | Either


@dataclass(frozen=True)
class Grouping:
    """A field whose values have answers of their own, or the square of a map that two fields name."""

    fields: tuple[str, ...]
    """One field; latitude and longitude for a square."""
    geohash: int | None = None
    """Characters of the geohash."""
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)

    @property
    def name(self) -> str:
        """The name in answers."""
        return self.fields[0] if self.geohash is None else f"geohash_{self.geohash}"


class Algorithm(StrEnum):
    """Algorithms of `OUTLIER_DETECTION`."""

    PMCOD = "pmcod"


@dataclass(frozen=True)
class Options:
    """The options behind `WITH`."""

    sample: float | None = None
    """Share of the events that is used."""
    max_error: float | None = None
    """Relative error that answers may have."""
    confidence: float | None = None
    """Share of answers that keep `max_error`."""
    salience: int | None = None
    """An overloaded site thins the queries with the least salience first."""
    scheduler: str | None = None
    """Policy that finds the site where answers are made of panes."""
    algorithm: Algorithm | None = None
    k: int | None = None
    r: float | None = None

    @property
    def is_estimated(self) -> bool:
        """True if answers may be computed from a part of the events, and say so."""
        return self.max_error is not None or self.salience is not None


@dataclass(frozen=True)
class Insight:
    """`name = COMPUTE …`: a query."""

    name: str
    expression: Expression
    when: Condition | None = None
    every: Window | None = None
    """None: at each event."""
    by: tuple[Grouping, ...] = ()
    options: Options = Options()
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class Stream:
    """`name = STREAM FROM provider(…)`."""

    name: str
    provider: str
    parameters: dict[str, str | float] = field(hash=False)
    place: Place = field(default=_TOP, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True)
class QueryText:
    """All statements of a text, in their order."""

    streams: tuple[Stream, ...]
    insights: tuple[Insight, ...]

    @property
    def statements(self) -> tuple[Stream | Insight, ...]:
        """All streams, then all queries."""
        return *self.streams, *self.insights

    @property
    def names(self) -> set[str]:
        """The names of all statements."""
        return {one.name for one in self.statements}


def calls_in(expression: Expression | Condition | str | None) -> Iterator[Call]:
    """Return every call in an expression or condition, outer ones first."""
    return (part for part in parts_of(expression) if isinstance(part, Call))


def metrics_in(expression: Expression | Condition | str | None) -> Iterator[Metric]:
    """Return every metric in an expression or condition."""
    return (part for part in parts_of(expression) if isinstance(part, Metric))


def parts_of(whole: Expression | Condition | str | None) -> Iterator[Expression]:
    """Return all expressions inside, outer ones first."""
    match whole:
        case None | str():
            return
        case Filtered(value, where):
            yield whole
            yield from parts_of(value)
            yield from parts_of(where)
        case Arithmetic(_, left, right):
            yield whole
            yield from parts_of(left)
            yield from parts_of(right)
        case Comparison(left, _, right):
            yield from parts_of(left)
            yield from parts_of(right)
        case Both(left, right) | Either(left, right):
            yield from parts_of(left)
            yield from parts_of(right)
        case Membership(left, _):
            yield from parts_of(left)
        case Negative(value):
            yield whole
            yield from parts_of(value)
        case Call():
            yield whole
            for argument in whole.arguments:
                yield from parts_of(argument)
        case _:
            yield whole
