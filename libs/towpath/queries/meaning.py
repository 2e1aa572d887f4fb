"""The meaning of a query text: its streams as places to read, and its queries in the order they depend on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from towpath.contracts.fields import FieldType
from towpath.queries.tree import Argument, Condition, Expression, Grouping, Options, Use, Window, parts_of

HERE = ""
"""In place of a site's name: the site that asks."""

ALL_SITES = "*"

SITE = "site"
"""In `BY`: the site of an event, and no field."""


@dataclass(frozen=True)
class FieldFilter:
    """Only events whose field has this value, or begins with it, belong to a stream."""

    field: str
    value: str | float | None
    """None: any value."""
    is_prefix: bool = False


@dataclass(frozen=True)
class Source:
    """A stream: a topic at some sites, or those of its events that pass the filters."""

    name: str
    topic: str
    sites: tuple[str, ...] = (HERE,)
    time: str | None = None
    """The field that says when an event happened. None: when its site stored it."""
    delay_micros: int = 0
    """Time behind the newest event within which a late one still counts."""
    filters: tuple[FieldFilter, ...] = ()

    @property
    def place(self) -> tuple[str, tuple[str, ...]]:
        """Topic and sites."""
        return self.topic, self.sites

    @property
    def events(self) -> tuple[object, ...]:
        """The same for all streams that have the same events, whatever they are called."""
        return self.topic, frozenset(self.sites), self.time, frozenset(self.filters)


@dataclass(frozen=True)
class Query:
    """A query. Its expressions hold `Use` where a function or a metric was written."""

    name: str
    expression: Expression
    when: Condition | None
    every: Window | None
    by: tuple[Grouping, ...]
    options: Options

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """All functions of arguments, each once, in the order of the text."""
        parts = [*parts_of(self.expression), *parts_of(self.when)]
        return tuple(dict.fromkeys(part for part in parts if isinstance(part, Use)))

    @property
    def reads_answers_of(self) -> list[str]:
        """The queries whose answers it reads."""
        return [*dict.fromkeys(argument.insight for argument in self.arguments if argument.insight)]

    @property
    def reads_streams(self) -> bool:
        """True if it reads events, and not only answers of other queries."""
        return any(argument.streams for argument in self.arguments)

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """All arguments of its functions, each once."""
        return tuple(dict.fromkeys(argument for use in self.uses for argument in use.arguments))


@dataclass(frozen=True)
class QuerySet:
    """All queries that are asked together."""

    sources: dict[str, Source]
    queries: tuple[Query, ...]
    """A query that reads another one's answers comes after it."""
    types: dict[str, FieldType]
    """Field → type, of all events."""

    @property
    def is_thinned(self) -> bool:
        """True if no query needs all events of the streams."""
        return all(query.options.is_estimated for query in self.queries if query.reads_streams)

    @property
    def scheduler(self) -> str | None:
        """The policy that finds the site where answers are made; None: the site that asks."""
        return next((query.options.scheduler for query in self.queries if query.options.scheduler), None)

    @property
    def first_names(self) -> dict[str, str]:
        """Stream → the first one in the text that has the same events."""
        first: dict[object, str] = {}
        return {name: first.setdefault(one.events, name) for name, one in self.sources.items()}

    @property
    def used(self) -> list[Source]:
        """The streams that any query reads, each once."""
        arguments = [argument for query in self.queries for argument in query.arguments]
        return [self.sources[name] for name in dict.fromkeys(n for one in arguments for n in one.streams)]
