"""Ask all queries about the keys that one state has: panes in, answers out, moment after moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from towpath.queries.evaluation.asking import Asking, Bound, Progress, kept_from
from towpath.queries.evaluation.expressions import holds, value_of
from towpath.queries.evaluation.history import History, Origin, Pane
from towpath.queries.program import Program, QueryProgram
from towpath.queries.tree import Argument, Expression, Metric

VERSION = 2
"""Of the state's layout."""

_AFTER_EVENTS = 10**12
"""Rank of answers among the inputs of events with the same time."""

Key = tuple[str, ...]
"""Values of the fields of `BY`, as panes have them."""


@dataclass(frozen=True)
class GroupAnswer:
    """An answer of a query about one key."""

    query: str
    at: int
    """The moment, microseconds since 1970."""
    number: int
    """Among the answers with the same query, key and moment."""
    key: Key
    value: Any
    origin: Origin
    about: Mapping[str, float]
    """Of an estimate: its interval, and the share of events that it was computed from."""


class Group:
    """The pasts of all keys of one state."""

    def __init__(self, program: Program, state: bytes | None = None) -> None:
        """Go on from a `state`, which `state` of an earlier object returned. Raises `ValueError`."""
        self._program = program
        self._views = {_view(query): dict[Key, History]() for query in program.queries}
        self._progress = {query.name: dict[Key, Progress]() for query in program.queries}
        self._names = sorted(query.name for query in program.queries)
        self._done: int | None = None
        """The moment until which answers are given, or before the first pane."""
        self._has_answered = False
        if state is not None:
            self._restore(state)

    def take(self, panes: Sequence[Pane]) -> None:
        """Take in panes, in any order. One that ends before the last `answers` comes too late to count."""
        columns = {view: self._columns(view) for view in self._views}
        if not self._has_answered and panes:
            # The panes of a slower site may end before the first ones that came.
            first = min(pane.end for pane in panes) - self._program.pane_micros
            self._done = first if self._done is None else min(first, self._done)
        for pane in panes:
            if self._has_answered and self._done is not None and pane.end <= self._done:
                continue
            for view, histories in self._views.items():
                key = tuple(pane.keys[column] for column in view)
                if all(key):
                    histories.setdefault(key, History()).take(pane, columns[view])

    def answers(self, until: int) -> list[GroupAnswer]:
        """Return all answers up to a moment. All panes that end until then have been taken in."""
        if self._done is None:
            return []
        until = until // self._program.pane_micros * self._program.pane_micros
        if until <= self._done:
            return []
        told: list[GroupAnswer] = []
        for query in self._program.queries:
            made = sorted(
                self._asked(query, self._done, until), key=lambda one: (one.at, one.key, one.number)
            )
            # Readers that see the same values by the same keys share them.
            read = {
                (_view(reader), column): argument
                for reader in self._program.queries
                for argument, column in reader.columns.items()
                if argument.insight == query.name
            }
            for (view, column), argument in read.items():
                self._feed(view, column, argument, query, made)
            told += made
        self._forget(until)
        self._done, self._has_answered = until, True
        return told

    def next_moment(self) -> int | None:
        """Return when a window will have a value next, even if no event comes. None: never."""
        done = self._done
        if done is None:
            return None
        found = [
            Asking(query, history, Progress()).next_moment(done)
            for query in self._program.queries
            for history in self._views[_view(query)].values()
        ]
        return min((moment for moment in found if moment is not None), default=None)

    @property
    def state(self) -> bytes:
        """All that later answers depend on."""
        views = [
            [view, [[key, history.saved()] for key, history in histories.items()]]
            for view, histories in self._views.items()
        ]
        progress = [
            [_definition(query), [[key, one.events, one.states] for key, one in by_key.items()]]
            for query in self._program.queries
            if (by_key := self._progress[query.name])
        ]
        return msgspec.msgpack.encode([VERSION, self._done, views, progress, self._has_answered])

    def _restore(self, state: bytes) -> None:
        """Take over what queries that are still asked know. A new one begins with nothing."""
        version, self._done, views, progress, self._has_answered = msgspec.msgpack.decode(state, strict=False)
        if version != VERSION:
            raise ValueError(f"the state of queries has layout {version}; this version reads {VERSION}")
        for view, histories in views:
            if tuple(view) in self._views:
                known = {tuple(key): History.restored(history) for key, history in histories}
                self._views[tuple(view)] = known
        definitions = {_definition(query): query.name for query in self._program.queries}
        for definition, by_key in progress:
            if definition in definitions:
                restored = {tuple(key): Progress(events, states) for key, events, states in by_key}
                self._progress[definitions[definition]] = restored

    def _asked(self, query: QueryProgram, done: int, until: int) -> Iterator[GroupAnswer]:
        for key, history in self._views[_view(query)].items():
            progress = self._progress[query.name].setdefault(key, Progress())
            asking = Asking(query, history, progress)
            for moment, value, origin in asking.answers(done, until):
                about = asking.about(moment) if query.options.is_estimated else {}
                yield GroupAnswer(query.name, moment.at, moment.number, key, value, origin, about)

    def _feed(
        self, view: Key, column: str, argument: Argument, query: QueryProgram, made: Sequence[GroupAnswer]
    ) -> None:
        """Give a query's answers, as events, to those that read them by the keys of a view."""
        columns = _view(query)
        rank = _AFTER_EVENTS + self._names.index(query.name)
        for number, answer in enumerate(made):
            key = tuple(answer.key[columns.index(each)] for each in view)
            value = _of_answer(argument, answer.value)
            if value is not None:
                history = self._views[view].setdefault(key, History())
                history.mark(answer.at, answer.origin)
                history.add(column, (answer.at - 1, rank, number, value))

    def _forget(self, until: int) -> None:
        for view, histories in self._views.items():
            queries = [query for query in self._program.queries if _view(query) == view]
            reach = max(query.reach_micros for query in queries)
            for key in [*histories]:
                kept: dict[str, Bound] = {}
                for query in queries:
                    for column, bound in kept_from(query, histories[key], until).items():
                        kept[column] = min(bound, kept.get(column, bound))
                histories[key].forget(until - reach, kept)
                if not histories[key].ends and not any(histories[key].series.values()):
                    del histories[key]
                    for query in queries:
                        if self._progress[query.name].get(key) == Progress():
                            del self._progress[query.name][key]

    def _columns(self, view: Key) -> frozenset[str]:
        queries = [query for query in self._program.queries if _view(query) == view]
        return frozenset(column for query in queries for column in query.columns.values())


def _definition(query: QueryProgram) -> str:
    """The question of a query, whatever its name."""
    return repr((query.expression, query.when, query.every, query.by, query.options))


def _view(query: QueryProgram) -> Key:
    """The columns that a query groups by."""
    return tuple(key.column for key in query.by)


def _of_answer(argument: Argument, answer: Any) -> Any:
    """The value of an argument in an answer; None if it has none."""

    def lookup(field: Expression) -> Any:
        assert isinstance(field, Metric)
        return answer

    value = value_of(argument.value, lookup)
    return value if argument.where is None or holds(argument.where, lookup, value) else None
