"""The queries as Spark's workers know them: plain objects, because workers know no contracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from towpath.queries.tree import Argument, Condition, Expression, Options, TimeWindow, Use, Window, parts_of


class Part(StrEnum):
    """A number, or a list, that is kept of the values in a pane."""

    COUNT = "count"
    SUM = "sum"
    SDEV = "sdev"
    """The standard deviation of a sample."""
    MIN = "min"
    MAX = "max"
    SERIES = "series"
    """Each value, with its event's time, input and serial number."""
    WEIGHT = "weight"
    """The sum of the weights w of events that have a value v."""
    WEIGHTED = "weighted"
    """The sum of w · v."""
    SQUARES = "squares"
    """The sum of w · v²."""
    DOUBT = "doubt"
    """The sum of w · (w - 1): the variance of `WEIGHT`."""
    DOUBT_WEIGHTED = "doubt_weighted"
    """The sum of w · (w - 1) · v."""
    DOUBT_SQUARES = "doubt_squares"
    """The sum of w · (w - 1) · v²: the variance of `WEIGHTED`."""


WEIGHTED_PARTS: Mapping[Part, tuple[int, int]] = {
    Part.WEIGHT: (0, 0),
    Part.WEIGHTED: (0, 1),
    Part.SQUARES: (0, 2),
    Part.DOUBT: (1, 0),
    Part.DOUBT_WEIGHTED: (1, 1),
    Part.DOUBT_SQUARES: (1, 2),
}
"""Sum of w · (w - 1)^i · v^j → i and j."""

ESTIMATED: Mapping[str, tuple[Part, ...]] = {
    "COUNT": (Part.WEIGHT, Part.DOUBT),
    "SUM": tuple(WEIGHTED_PARTS),
    "AVG": tuple(WEIGHTED_PARTS),
}
"""Function → its needs beside the count where events may be left out. No other function is estimated."""


PARTS: Mapping[str, tuple[Part, ...]] = {
    "AVG": (Part.SUM,),
    "SUM": (Part.SUM,),
    "COUNT": (),
    "MIN": (Part.MIN,),
    "MAX": (Part.MAX,),
    "VARIANCE": (Part.SUM, Part.SDEV),
    "SDEV": (Part.SUM, Part.SDEV),
    "RUNNING_COUNT": (),
    "RUNNING_MEAN": (Part.SUM,),
    "RUNNING_MIN": (Part.MIN,),
    "RUNNING_MAX": (Part.MAX,),
    "RUNNING_SDEV": (Part.SUM, Part.SDEV),
}
"""Function → its needs beside the count, at the edge of a pane. All others need the values themselves."""


def parts_needed(use: Use, options: Options) -> tuple[Part, ...]:
    """Return what panes keep for a function of panes, beside the count."""
    return ESTIMATED[use.function] if options.is_estimated else PARTS[use.function]


def is_of_panes(use: Use, every: Window | None) -> bool:
    """Return true if a function's value at a moment follows from whole panes."""
    is_own = all(argument.insight is None for argument in use.arguments)
    is_whole = use.window is None or isinstance(use.window, TimeWindow)
    return isinstance(every, TimeWindow) and is_own and is_whole and use.function in PARTS


@dataclass(frozen=True)
class KeyColumn:
    """A field that answers are grouped by."""

    name: str
    """In answers."""
    column: str
    """Of a pane: the value as text behind `=`, or an empty text."""
    type: str
    """Of the value: `string`, `long`, `double` or `boolean`."""


@dataclass(frozen=True)
class QueryProgram:
    """A query, and where a pane has what it needs."""

    name: str
    expression: Expression
    when: Condition | None
    every: Window | None
    by: tuple[KeyColumn, ...]
    options: Options
    columns: Mapping[Argument, str]
    """Argument → the name of its columns, less the part."""

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """All functions of arguments, each once."""
        parts = [*parts_of(self.expression), *parts_of(self.when)]
        return tuple(dict.fromkeys(part for part in parts if isinstance(part, Use)))

    @property
    def step_micros(self) -> int:
        """Microseconds between moments; 0 if they follow events."""
        return self.every.micros if isinstance(self.every, TimeWindow) else 0

    @cached_property
    def longest_micros(self) -> int:
        """Microseconds that the windows of lengths of time reach into the past."""
        lengths = [
            use.offset_micros + (use.window.micros if isinstance(use.window, TimeWindow) else 0)
            for use in self.uses
        ]
        return max(lengths, default=0)

    @property
    def reach_micros(self) -> int:
        """Microseconds of the past that decide whether a moment has an answer."""
        return max(self.step_micros, self.longest_micros)


@dataclass(frozen=True)
class Program:
    """All queries that are computed together: those before are read by those after."""

    pane_micros: int
    queries: tuple[QueryProgram, ...]
