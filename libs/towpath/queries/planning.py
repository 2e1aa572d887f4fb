"""Share work between queries: which numbers are kept for each pane of time, and which query uses which.

Time is cut into panes, so that each window and each moment is at the edge of one. Events are aggregated once,
for each pane and each value of all fields that any query groups by. Windows are made of panes then, and
coarser groups of finer ones. So queries share all that they have in common (Krishnamurthy et al., "On-the-Fly
Sharing for Streamed Aggregation", 2006).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.contracts.fields import FieldType
from towpath.queries.meaning import SITE, Query, QuerySet, Source
from towpath.queries.program import (
    PARTS,
    WEIGHTED_PARTS,
    KeyColumn,
    Part,
    Program,
    QueryProgram,
    is_of_panes,
    parts_needed,
)
from towpath.queries.row_sql import argument_sql, grouping_sql, streams_sql, weighted_sql
from towpath.queries.tree import Argument, Grouping, Metric, TimeWindow

AT = "at"
"""The column with an event's time."""

EVENT_PANE_MICROS = 1_000_000
"""Length of a pane where only queries without EVERY are asked: their answers come so much later."""


@dataclass(frozen=True)
class Kept:
    """A column of panes."""

    argument: str
    """The column of events that has the values."""
    part: Part

    @property
    def name(self) -> str:
        """The column of panes."""
        return f"{self.argument}_{self.part}"


@dataclass(frozen=True)
class SharedPlan:
    """Values of events, numbers kept of panes, and the program that makes answers of these."""

    program: Program
    where: str | None
    """Spark SQL: the events that belong to any stream; None if all do."""
    select: Mapping[str, str]
    """Column of events → Spark SQL over their fields: time, keys, and values of arguments."""
    keys: tuple[str, ...]
    """Columns of events that panes are grouped by."""
    arguments: Mapping[str, Argument]
    """Column of events → the argument whose values it has."""
    types: Mapping[str, FieldType]
    """Column of events → the type of an argument's values."""
    kept: tuple[Kept, ...]
    delay_micros: int
    """Time behind the newest event within which a late one still counts."""
    served: Mapping[Kept, tuple[str, ...]]
    """Column of panes → the queries that use it."""


def shared_plan(
    asked: QuerySet, inputs: Mapping[str, Sequence[int]], sites: Sequence[str] = ()
) -> SharedPlan:
    """Return the plan of all queries.

    `inputs` has the positions of each stream in the job's inputs, and `sites` the sites of these. Without
    inputs the plan is that of a job that reads panes.
    """
    select = {AT: _time_sql(asked, inputs)}
    arguments: dict[str, Argument] = {}
    served: dict[Kept, list[str]] = {}
    programs: list[QueryProgram] = []
    first = asked.first_names
    for query in asked.queries:
        columns = {each: column_of(each, query.options.sample, first) for each in query.arguments}
        by = tuple(_key_column(grouping, asked.types) for grouping in query.by)
        for each, column in columns.items():
            if each.insight is None:
                streams = streams_sql([asked.sources[name] for name in each.streams], inputs)
                select[column] = argument_sql(each, streams, query.options.sample)
                arguments.setdefault(column, each)
        if any(each.insight is None for each in query.arguments):
            for key, grouping in zip(by, query.by, strict=True):
                select[key.column] = grouping_sql(grouping, sites)
        for kept in dict.fromkeys(_kept(query, columns)):
            served.setdefault(kept, []).append(query.name)
            if kept.part in WEIGHTED_PARTS and kept.argument in select:
                select[kept.name] = weighted_sql(
                    select[kept.argument], *WEIGHTED_PARTS[kept.part], is_thinned=asked.is_thinned
                )
        programs.append(
            QueryProgram(query.name, query.expression, query.when, query.every, by, query.options, columns)
        )
    used = asked.used
    return SharedPlan(
        Program(pane_micros(asked), tuple(programs)),
        streams_sql(used, inputs),
        {name: select[name] for name in sorted(select)},
        tuple(sorted({key.column for program in programs for key in program.by})),
        arguments,
        {column: _type(argument, asked) for column, argument in arguments.items()},
        tuple(sorted(served, key=lambda kept: kept.name)),
        max(source.delay_micros for source in used),
        {kept: tuple(names) for kept, names in served.items()},
    )


def column_of(argument: Argument, sample: float | None, first: Mapping[str, str]) -> str:
    """Return the column with an argument's values. Equal ones of different queries have one name.

    `first` has the name under which the events of a stream were declared first.
    """
    streams = tuple(sorted({first[name] for name in argument.streams}))
    return f"v_{_digest(repr((replace(argument, streams=streams), sample)))}"


def pane_micros(asked: QuerySet) -> int:
    """Return the length of panes: the longest at whose edges all windows and moments lie."""
    lengths: list[int] = []
    for query in asked.queries:
        if not isinstance(query.every, TimeWindow):
            lengths.append(EVENT_PANE_MICROS)
            continue
        lengths.append(query.every.micros)
        for use in query.uses:
            if use.function in PARTS and isinstance(use.window, TimeWindow):
                lengths += [use.window.micros, use.offset_micros]
    return math.gcd(*lengths)


def _kept(query: Query, columns: Mapping[Argument, str]) -> Iterator[Kept]:
    for use in query.uses:
        for argument in use.arguments:
            if argument.insight is not None:
                continue
            column = columns[argument]
            if is_of_panes(use, query.every):
                yield from (Kept(column, part) for part in (Part.COUNT, *parts_needed(use, query.options)))
            else:
                yield Kept(column, Part.SERIES)


def _type(argument: Argument, asked: QuerySet) -> FieldType:
    """A field's own type; what is computed is a double."""
    return asked.types[argument.value.name] if isinstance(argument.value, Metric) else FieldType.DOUBLE


def _time_sql(asked: QuerySet, inputs: Mapping[str, Sequence[int]]) -> str:
    by_field: dict[str | None, list[Source]] = {}
    for source in asked.used:
        by_field.setdefault(source.time, []).append(source)
    named = {_time_column(name): streams_sql(sources, inputs) for name, sources in by_field.items()}
    if len(named) == 1:
        return next(iter(named))
    cases = [f"when {which or 'true'} then {column}" for column, which in named.items()]
    return f"case {' '.join(cases)} end"


def _time_column(name: str | None) -> str:
    return "stored_at" if name is None else f"`{name}`"


def _key_column(grouping: Grouping, types: Mapping[str, FieldType]) -> KeyColumn:
    column = f"by_{_digest(repr((grouping.fields, grouping.geohash)))}"
    kind = types[grouping.fields[0]] if is_field(grouping) else FieldType.STRING
    return KeyColumn(grouping.name, column, str(kind))


def is_field(grouping: Grouping) -> bool:
    """Return true if events are grouped by the values of a field."""
    return grouping.geohash is None and grouping.fields != (SITE,)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
