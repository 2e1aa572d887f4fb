"""Rules with a result for each tumbling window and key, and counts of words."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.columns import Column, combined
from towpath.checker.expectation import Expectation
from towpath.checker.history import History
from towpath.checker.moments import TimeUnit, microseconds
from towpath.checker.rule import Rule, Terms
from towpath.checker.rules_events import has_value, moments

_MICROSECONDS = 1_000_000


def aggregated(function: str, groups: np.ndarray, count: int, numbers: pd.Series | None) -> list[Any]:
    """One number for each of `count` groups: of pandas' `function`, or how many rows it has.

    `groups`: the group of each row. `numbers`: of the rows that have one; a group without any gives None.
    """
    if numbers is None:
        return np.bincount(groups, minlength=count).tolist()
    found = getattr(numbers.groupby(groups[numbers.index]), function)()
    values: list[Any] = [None] * count
    for group, value in zip(found.index.tolist(), found.tolist(), strict=True):
        values[group] = value
    return values


def numbers_of(events: History, name: str) -> pd.Series:
    """The numbers in a field, by row; rows without one are left out. Whole numbers stay whole.

    Raises `TowpathError` (invalid) for a value that is no number.
    """
    column = events.column(name)
    bad = [
        code
        for code, value in enumerate(column.values)
        if code and (isinstance(value, bool) or not isinstance(value, int | float))
    ]
    if bad:
        raise events.invalid(int(np.flatnonzero(np.isin(column.array(), bad))[0]), name, "a number")
    values = column.values[1:]
    whole = all(isinstance(value, int) and abs(value) < 2**53 for value in values)
    table = np.array([0, *values], np.int64 if whole else np.float64)
    rows = np.flatnonzero(column.array())
    return pd.Series(table[column.array()[rows]], index=rows)


def numbers_at(events: History, name: str, rows: np.ndarray) -> pd.Series:
    """The numbers in a field at `rows`, which may repeat, by their place there."""
    numbers = numbers_of(events, name)
    places = pd.Series(np.arange(len(numbers)), index=numbers.index).reindex(rows, fill_value=-1).to_numpy()
    found = np.flatnonzero(places >= 0)
    return pd.Series(numbers.to_numpy()[places[found]], index=found)


def _windows(terms: Terms, events: History, extent: np.ndarray) -> np.ndarray:
    """The number of each event's window, counted from 1970."""
    assert terms.size_s is not None
    assert terms.time_field is not None
    return moments(events, terms, terms.time_field)[extent] // round(terms.size_s * _MICROSECONDS)


def _expected(function: str, word: str, terms: Terms, events: History) -> Expectation:
    assert terms.time_field is not None
    placed = np.flatnonzero(has_value(events, terms.time_field))
    windows = _windows(terms, events, placed)
    keys = {name: events.column(name).selected(placed) for name in terms.key}
    numbers = None
    if terms.value_field is not None and function != "size":
        numbers = numbers_at(events, terms.value_field, placed)
    return _grouped(terms, function, word, windows, keys, numbers)


def _grouped(
    terms: Terms,
    function: str,
    word: str,
    windows: np.ndarray | None,
    keys: dict[str, Column],
    numbers: pd.Series | None,
) -> Expectation:
    rows = len(next(iter(keys.values()))) if windows is None else len(windows)
    of_key = combined([c.array() for c in keys.values()], [len(c.values) for c in keys.values()], rows)
    parts, sizes = [of_key], [int(of_key.max(initial=0)) + 1]
    if windows is not None:
        of_window, distinct = pd.factorize(windows)
        parts, sizes = [*parts, of_window], [*sizes, len(distinct)]
    groups, found = pd.factorize(combined(parts, sizes, rows))
    first = np.full(len(found), rows)
    np.minimum.at(first, groups, np.arange(rows))
    identity = {name: column.selected(first) for name, column in keys.items()}
    values = {terms.result_field or word: Column.of(aggregated(function, groups, len(found), numbers))}
    if windows is None:
        return Expectation(len(found), identity, values)
    return _placed(terms, identity, values, windows[first], of_key[first])


def _placed(
    terms: Terms,
    identity: dict[str, Column],
    values: dict[str, Column],
    windows: np.ndarray,
    order: np.ndarray,
) -> Expectation:
    """The expectation of windows: known by their start, or by their end where results have no start."""
    assert terms.size_s is not None
    size = round(terms.size_s * _MICROSECONDS)
    start = {terms.window_start: Column.of((windows * size).tolist())}
    end = {terms.window_end or "window_end": Column.of(((windows + 1) * size).tolist())}
    known_by, beside = (start, end) if terms.window_end is None else (end, start)
    read = functools.partial(_read, unit=terms.time_unit)
    return Expectation(
        len(windows),
        {**known_by, **identity},
        {**values, **beside},
        if_present=frozenset(beside),
        readings={name: read for name in (*start, *end)},
        order=order,
        position=windows,
    )


def _read(value: Any, unit: TimeUnit) -> Any:
    """The moment in microseconds; what is none stays as it is, and so is never right."""
    at = microseconds(value, unit)
    return repr(value) if at is None and value is not None else at


def _with_open(terms: Terms, events: History, expectation: Expectation) -> Expectation:
    """Windows that the watermark has not closed need not have come."""
    if terms.watermark_s is None or expectation.position is None or not expectation.rows:
        return expectation
    assert terms.size_s is not None
    assert terms.time_field is not None
    newest = moments(events, terms, terms.time_field)[has_value(events, terms.time_field)].max()
    ends = (expectation.position + 1) * round(terms.size_s * _MICROSECONDS)
    expectation.optional = ends > newest - round(terms.watermark_s * _MICROSECONDS)
    return expectation


def _word_count(terms: Terms, events: History, _: History) -> Expectation:
    """Words are what white space separates."""
    column = events.column(terms.text_field)
    split = [str(text).split() if text is not None else [] for text in column.values]
    lengths = np.array([len(words) for words in split])[column.array()]
    flat = Column.of(word for words in split for word in words)
    starts = np.concatenate([[0], np.cumsum([len(words) for words in split])[:-1]])[column.array()]
    rows = np.repeat(np.arange(len(events)), lengths)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    words = flat.selected(starts[rows] + within)
    if terms.size_s is None:
        return _grouped(terms, "size", "count", None, {terms.word_field: words}, None)
    assert terms.time_field is not None
    placed = np.flatnonzero(has_value(events, terms.time_field)[rows])
    windows = _windows(terms, events, rows[placed])
    keys = {terms.word_field: words.selected(placed)}
    return _with_open(terms, events, _grouped(terms, "size", "count", windows, keys, None))


def _named(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


def _results(word: str, terms: Terms) -> list[str]:
    window = (terms.window_start, terms.window_end or "window_end")
    return [*terms.key, *window, terms.result_field or word]


def _rule(function: str, word: str, meaning: str, *needs: str) -> Rule:
    return Rule(
        meaning,
        ("size_s", "time_field", *needs),
        lambda terms: _named(terms.time_field, terms.value_field, *terms.key),
        lambda terms: _results(word, terms),
        lambda terms, events, _: _with_open(terms, events, _expected(function, word, terms, events)),
    )


_OF_WINDOW = "of --value-field in each window, for each key"

RULES = {
    "window-count": _rule("size", "count", "number of events in each window, for each key"),
    "window-sum": _rule("sum", "sum", f"sum {_OF_WINDOW}", "value_field"),
    "window-min": _rule("min", "min", f"least {_OF_WINDOW}", "value_field"),
    "window-max": _rule("max", "max", f"greatest {_OF_WINDOW}", "value_field"),
    "window-average": _rule("mean", "average", f"mean {_OF_WINDOW}", "value_field"),
    "word-count": Rule(
        "how often each word of --text-field occurs; in each window, if --size-s is given",
        (),
        lambda terms: _named(terms.text_field, terms.time_field),
        lambda terms: [terms.word_field, *_results("count", terms)],
        _word_count,
    ),
}
