"""Rules with a result for each group of events: by window, by range of serial numbers, by word."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.columns import CodedColumn, combined
from towpath.checker.expectation import Expectation
from towpath.checker.history import History, longs
from towpath.checker.moments import TimeUnit, microseconds
from towpath.checker.ranges import Range, partition, rows_in
from towpath.checker.rule import PipelineRule, Terms
from towpath.checker.truth import grouped, plain
from towpath.contracts.operators import Aggregate, AggregateFunction

_AFTER, _THROUGH = "after", "through"
_MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class _Totals:
    """One number for each group, as columns."""

    numbers: np.ndarray
    """Number of the window or range."""
    key: dict[str, CodedColumn]
    results: CodedColumn
    order: np.ndarray
    """Equal numbers for equal keys."""


def _totals(
    function: AggregateFunction,
    numbers: np.ndarray,
    key: Mapping[str, CodedColumn],
    values: pd.Series | None,
) -> _Totals:
    """Aggregate rows by number and key. `values` is None where they are counted only."""
    rows = pd.DataFrame(index=range(len(numbers)) if values is None else values.index)
    field = None if values is None else "value"
    if values is not None:
        rows["value"] = values
    by = [numbers, *(column.array() for column in key.values())]
    table = grouped(rows, by, {"result": Aggregate(function=function, field=field)})
    groups = table.index.to_frame(index=False)
    held = {name: column.coded(groups[at].to_numpy()) for at, (name, column) in enumerate(key.items(), 1)}
    order = combined([c.array() for c in held.values()], [len(c.values) for c in held.values()], len(groups))
    results = CodedColumn.of(plain(cell) for cell in table["result"])
    return _Totals(groups[0].to_numpy(np.int64), held, results, order)


def _values(function: AggregateFunction, terms: Terms, events: History, rows: np.ndarray) -> pd.Series | None:
    if function is AggregateFunction.COUNT or terms.value_field is None:
        return None
    return events.numbers(terms.value_field).iloc[rows].reset_index(drop=True)


def _of_windows(
    function: AggregateFunction, word: str, terms: Terms, events: History, _: History
) -> Expectation:
    assert terms.time_field is not None
    placed = np.flatnonzero(events.present(terms.time_field))
    key = {name: events.column(name).selected(placed) for name in terms.key}
    values = _values(function, terms, events, placed)
    totals = _totals(function, _windows(terms, events)[placed], key, values)
    return _placed(terms, events, totals, word)


def _windows(terms: Terms, events: History) -> np.ndarray:
    """Return the number of each event's window, counted from 1970."""
    assert terms.size_s is not None
    assert terms.time_field is not None
    return events.moments(terms.time_field, terms.time_unit) // round(terms.size_s * _MICROSECONDS)


def _placed(terms: Terms, events: History, totals: _Totals, word: str) -> Expectation:
    """Return the expected windows, known by their start, or by their end where results have no start.

    Windows that the watermark has not closed need not have come.
    """
    assert terms.size_s is not None
    size = round(terms.size_s * _MICROSECONDS)
    ends = (totals.numbers + 1) * size
    start = {terms.window_start: CodedColumn.of((ends - size).tolist())}
    end = {terms.window_end or "window_end": CodedColumn.of(ends.tolist())}
    known_by, beside = (start, end) if terms.window_end is None else (end, start)
    read = functools.partial(_read, unit=terms.time_unit)
    optional = None
    if terms.watermark_s is not None and len(ends):
        assert terms.time_field is not None
        newest = events.moments(terms.time_field, terms.time_unit)[events.present(terms.time_field)].max()
        optional = ends > newest - round(terms.watermark_s * _MICROSECONDS)
    return Expectation(
        len(ends),
        {**known_by, **totals.key},
        {terms.result_field or word: totals.results, **beside},
        if_present=frozenset(beside),
        readings={name: read for name in (*start, *end)},
        order=totals.order,
        position=totals.numbers,
        optional=optional,
    )


def _read(value: Any, unit: TimeUnit) -> Any:
    """Return the moment in microseconds. A value that is no time stays as it is, and so is never right."""
    at = microseconds(value, unit)
    return repr(value) if at is None and value is not None else at


def _word_count(terms: Terms, events: History, _: History) -> Expectation:
    """Count the words, which white space separates."""
    column = events.column(terms.text_field)
    split = pd.Series([str(text).split() if text is not None else [] for text in column.values], dtype=object)
    words = split.iloc[column.array()].reset_index(drop=True).explode().dropna()
    rows = words.index.to_numpy()
    key = {terms.word_field: CodedColumn.of(words)}
    if terms.size_s is None:
        totals = _totals(AggregateFunction.COUNT, np.zeros(len(rows), np.int64), key, None)
        return Expectation(len(totals.numbers), totals.key, {terms.result_field or "count": totals.results})
    assert terms.time_field is not None
    placed = np.flatnonzero(events.present(terms.time_field)[rows])
    key = {name: held.selected(placed) for name, held in key.items()}
    windows = _windows(terms, events)[rows[placed]]
    return _placed(terms, events, _totals(AggregateFunction.COUNT, windows, key, None), "count")


def _of_ranges(
    function: AggregateFunction, word: str, terms: Terms, events: History, results: History
) -> Expectation:
    serials = longs(events.lines) if terms.serial_field is None else events.serials(terms.serial_field)
    if not len(serials):
        return Expectation(0, {_AFTER: CodedColumn(), _THROUGH: CodedColumn()})
    found = partition(_ranges(results), int(serials.min()) - 1, int(serials.max()))
    ranges = [*found.parts, *found.gaps, *found.overlapping]
    kept = np.ones(len(events), bool)  # An event without its whole key is in no range.
    for name in terms.key:
        kept &= events.present(name)
    placed = np.flatnonzero(kept)
    rows, numbers = rows_in(ranges, serials[placed])
    rows = placed[rows]
    key = {name: events.column(name).selected(rows) for name in terms.key}
    totals = _totals(function, numbers, key, _values(function, terms, events, rows))
    after, through = np.array(ranges, np.int64).reshape(-1, 2)[totals.numbers].T
    return Expectation(
        len(after),
        {_AFTER: CodedColumn.of(after.tolist()), _THROUGH: CodedColumn.of(through.tolist()), **totals.key},
        {terms.result_field or word: totals.results},
        order=totals.order,
        position=after,
        surplus=totals.numbers >= len(found.parts) + len(found.gaps),
    )


def _ranges(results: History) -> list[Range]:
    """Return the ranges that results say they cover."""
    if not len(results):
        return []
    after, through = results.column(_AFTER), results.column(_THROUGH)
    pairs = set(zip(after.codes, through.codes, strict=True))
    found = [(after.values[a], through.values[t]) for a, t in pairs]
    return sorted((a, t) for a, t in found if type(a) is int and type(t) is int and a < t)


def _given(*names: str | None) -> list[str]:
    return [name for name in names if name is not None]


def _window_rule(word: str, function: AggregateFunction, needs: tuple[str, ...]) -> PipelineRule:
    return PipelineRule(
        ("size_s", "time_field", *needs),
        lambda terms: _given(terms.time_field, terms.value_field, *terms.key),
        lambda terms: _window_fields(terms, word),
        functools.partial(_of_windows, function, word),
    )


def _window_fields(terms: Terms, word: str) -> list[str]:
    return [*terms.key, terms.window_start, terms.window_end or "window_end", terms.result_field or word]


def _range_rule(word: str, function: AggregateFunction, needs: tuple[str, ...]) -> PipelineRule:
    return PipelineRule(
        needs,
        lambda terms: _given(terms.serial_field, terms.value_field, *terms.key),
        lambda terms: [*terms.key, _AFTER, _THROUGH, terms.result_field or word],
        functools.partial(_of_ranges, function, word),
    )


_AGGREGATES: dict[str, tuple[AggregateFunction, tuple[str, ...]]] = {
    "count": (AggregateFunction.COUNT, ()),
    "sum": (AggregateFunction.SUM, ("value_field",)),
    "min": (AggregateFunction.MIN, ("value_field",)),
    "max": (AggregateFunction.MAX, ("value_field",)),
    "average": (AggregateFunction.AVG, ("value_field",)),
}
"""Word of rule and result → aggregate of the events, and the terms that it needs."""

RULES = {
    **{f"window-{word}": _window_rule(word, *aggregate) for word, aggregate in _AGGREGATES.items()},
    **{f"range-{word}": _range_rule(word, *aggregate) for word, aggregate in _AGGREGATES.items()},
    # The number of times that each word of `text_field` occurs; in each window, if `size_s` is given.
    "word-count": PipelineRule(
        (),
        lambda terms: _given(terms.text_field, terms.time_field),
        lambda terms: [terms.word_field, *_window_fields(terms, "count")],
        _word_count,
    ),
}
