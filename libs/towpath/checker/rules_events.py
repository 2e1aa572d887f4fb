"""Rules with a result for each event, or for the newest events."""

from __future__ import annotations

import numpy as np
import pandas as pd

from towpath.checker.columns import CodedColumn
from towpath.checker.conditions import holding
from towpath.checker.expectation import Expectation
from towpath.checker.history import History
from towpath.checker.rule import PipelineRule, Terms
from towpath.contracts.errors import ErrorCode, TowpathError


def _fields(terms: Terms) -> list[str] | None:
    if terms.compare is None:
        return None
    time = [terms.time_field] if terms.time_field is not None else []
    return [*terms.key, *terms.identity, *time, *terms.compare]


def _passed(terms: Terms, events: History, rows: np.ndarray) -> Expectation:
    """Expect these events unchanged. One that repeats an identity is the same event, sent again."""
    names = terms.compare if terms.compare is not None else tuple(events.table.columns)
    if terms.identity:
        rows = rows[~pd.Series(events.alike(terms.identity)[rows]).duplicated().to_numpy()]
    columns = {name: events.table.columns[name].selected(rows) for name in names}
    identity = {name: events.column(name).selected(rows) for name in terms.identity} or columns
    order = events.alike(terms.key)[rows] if terms.key else None
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
    return _passed(terms, events, holding(terms.where or "", events))


def _running_count(terms: Terms, events: History, _: History) -> Expectation:
    order = events.alike(terms.key)
    number = pd.Series(order).groupby(order).cumcount().to_numpy() + 1
    counts = {terms.result_field or "count": CodedColumn.of(number.tolist())}
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
            "no field identifies an event",
            field="identity",
            value="nothing",
            allowed="fields of the events, or a time_field",
        )
    order = events.alike(terms.key)
    age = np.arange(len(events))
    if terms.time_field is not None:
        age = np.argsort(np.lexsort((age, events.moments(terms.time_field, terms.time_unit))))
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
    # Each event comes out once; with `filter`, each event for which the condition holds.
    "pass-through": PipelineRule((), _fields, _fields, _pass_through),
    "filter": PipelineRule(("where",), lambda _: None, _fields, _filter),
    # For each event, the number of events of its key so far.
    "running-count": PipelineRule(("key",), _count_fields, _count_fields, _running_count),
    # The newest event of each key comes out; older ones may, before it.
    "latest-by-key": PipelineRule(("key",), _fields, _fields, _latest_by_key),
}
