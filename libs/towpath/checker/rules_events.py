"""Rules with a result for each event, or for the newest ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

from towpath.checker.columns import Column, combined
from towpath.checker.conditions import condition
from towpath.checker.expectation import Expectation
from towpath.checker.history import History
from towpath.checker.moments import microseconds
from towpath.checker.rule import Rule, Terms
from towpath.contracts.errors import ErrorCode, TowpathError


def key_codes(events: History, fields: tuple[str, ...]) -> np.ndarray:
    """A number for each event: equal where the key is equal."""
    columns = [events.column(name) for name in fields]
    return combined([c.array() for c in columns], [len(c.values) for c in columns], len(events))


def moments(events: History, terms: Terms, name: str) -> np.ndarray:
    """The time of each event in microseconds since 1970; NaN where it has none, as a float.

    Raises `TowpathError` (invalid) for a value that is no time.
    """
    column = events.column(name)
    read = [microseconds(value, terms.time_unit) for value in column.values]
    bad = [code for code in range(1, len(read)) if read[code] is None]
    if bad:
        row = int(np.flatnonzero(np.isin(column.array(), bad))[0])
        raise events.invalid(row, name, f"ISO 8601, or a number of {terms.time_unit}")
    return np.array([0 if at is None else at for at in read], np.int64)[column.array()]


def has_value(events: History, name: str) -> np.ndarray:
    """Whether each event has a value in the field."""
    return events.column(name).array() != 0


def _fields(terms: Terms, more: list[str]) -> list[str] | None:
    if terms.compare is None:
        return None
    time = [terms.time_field] if terms.time_field is not None else []
    return [*terms.key, *terms.identity, *time, *terms.compare, *more]


def _of_events(terms: Terms) -> list[str] | None:
    return _fields(terms, [] if terms.where is None else condition(terms.where)[1])


def _of_results(terms: Terms) -> list[str] | None:
    return _fields(terms, [])


def _passed(terms: Terms, events: History, rows: np.ndarray) -> Expectation:
    """These events, unchanged. One that repeats an identity is the same event, sent again."""
    names = terms.compare if terms.compare is not None else tuple(events.table.columns)
    if terms.identity:
        rows = rows[~pd.Series(key_codes(events, terms.identity)[rows]).duplicated().to_numpy()]
    columns = {name: events.table.columns[name].selected(rows) for name in names}
    identity = {name: events.column(name).selected(rows) for name in terms.identity} or columns
    order = key_codes(events, terms.key)[rows] if terms.key else None
    return Expectation(
        len(rows),
        identity,
        {name: column for name, column in columns.items() if name not in identity},
        complete=terms.compare is None,
        order=order,
        position=rows,
    )


def _pass_through(terms: Terms, events: History, _: History) -> Expectation:
    return _passed(terms, events, np.arange(len(events)))


def _filter(terms: Terms, events: History, _: History) -> Expectation:
    holds, names = condition(terms.where or "")
    columns = {name: events.column(name) for name in names}
    kept = [
        row
        for row in range(len(events))
        if holds({name: column[row] for name, column in columns.items()}) is True
    ]
    return _passed(terms, events, np.array(kept, np.int64))


def _running_count(terms: Terms, events: History, _: History) -> Expectation:
    order = key_codes(events, terms.key)
    number = pd.Series(order).groupby(order).cumcount().to_numpy() + 1
    counts = {terms.result_field or "count": Column.of(number.tolist())}
    of_events = {name: events.column(name) for name in terms.identity or terms.key}
    if terms.identity:
        return Expectation(len(events), of_events, counts, order=order, position=number)
    return Expectation(len(events), {**of_events, **counts}, order=order, position=number)


def _count_fields(terms: Terms) -> list[str]:
    return [*terms.key, *terms.identity, terms.result_field or "count"]


def _latest_by_key(terms: Terms, events: History, _: History) -> Expectation:
    known_by = terms.identity or ((terms.time_field,) if terms.time_field is not None else ())
    if not known_by:
        raise TowpathError(
            ErrorCode.INVALID,
            "a result must say which event it is",
            field="identity",
            value="nothing",
            allowed="fields of the events, or a time_field",
        )
    order = key_codes(events, terms.key)
    age = np.arange(len(events))
    if terms.time_field is not None:
        age = np.argsort(np.lexsort((age, moments(events, terms, terms.time_field))))
    newest = pd.Series(age).groupby(order).transform("max").to_numpy()
    names = terms.compare if terms.compare is not None else tuple(events.table.columns)
    identity = {name: events.column(name) for name in (*terms.key, *known_by)}
    return Expectation(
        len(events),
        identity,
        {name: events.column(name) for name in names if name not in identity},
        complete=terms.compare is None,
        order=order,
        position=age,
        optional=age != newest,
    )


RULES = {
    "pass-through": Rule("each event comes out once", (), _of_events, _of_results, _pass_through),
    "filter": Rule(
        "each event for which --where holds comes out once", ("where",), _of_events, _of_results, _filter
    ),
    "running-count": Rule(
        "for each event, how many its key has had so far",
        ("key",),
        _count_fields,
        _count_fields,
        _running_count,
    ),
    "latest-by-key": Rule(
        "the newest event of each key comes out; older ones may, before it",
        ("key",),
        _of_events,
        _of_results,
        _latest_by_key,
    ),
}
