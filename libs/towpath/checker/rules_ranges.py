"""Rules for windows over serial numbers, whose ends are the job's to choose: that they partition is not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from towpath.checker.columns import Column, combined
from towpath.checker.expectation import Expectation
from towpath.checker.history import History, longs
from towpath.checker.ranges import Range, partition
from towpath.checker.rule import Rule, Terms
from towpath.checker.rules_events import key_codes
from towpath.checker.rules_windows import aggregated, numbers_at

AFTER, THROUGH = "after", "through"


def _serials(terms: Terms, events: History) -> np.ndarray:
    """The serial number of each event. Raises `TowpathError` (invalid) for what is none."""
    if terms.serial_field is None:
        return longs(events.lines)
    column = events.column(terms.serial_field)
    bad = [code for code, value in enumerate(column.values) if type(value) is not int]
    found = np.flatnonzero(np.isin(column.array(), bad))
    if len(found):
        raise events.invalid(int(found[0]), terms.serial_field, "a whole number")
    values = np.array([0, *column.values[1:]], np.int64)
    return values[column.array()]


def _ranges(results: History) -> list[Range]:
    """The ranges that results say they cover."""
    if not len(results):
        return []
    after, through = results.column(AFTER), results.column(THROUGH)
    pairs = set(zip(after.codes, through.codes, strict=True))
    found = [(after.values[a], through.values[t]) for a, t in pairs]
    return sorted((a, t) for a, t in found if type(a) is int and type(t) is int and a < t)


def _expected(function: str, word: str, terms: Terms, events: History, results: History) -> Expectation:
    serials = _serials(terms, events)
    if not len(serials):
        return Expectation(0, {AFTER: Column(), THROUGH: Column()})
    found = partition(_ranges(results), int(serials.min()) - 1, int(serials.max()))
    ranges = [*found.parts, *found.gaps, *found.overlapping]
    rows, numbers = _rows_of(ranges, _with_key(terms, events), serials)
    of_key = key_codes(events, terms.key)
    sizes = [len(ranges) + 1, int(of_key.max(initial=0)) + 1]
    groups, distinct = pd.factorize(combined([numbers, of_key[rows]], sizes, len(rows)))
    first = np.full(len(distinct), len(rows))
    np.minimum.at(first, groups, np.arange(len(rows)))
    of_range = numbers[first]
    values = None if terms.value_field is None else numbers_at(events, terms.value_field, rows)
    if function == "size":
        values = None
    return Expectation(
        len(distinct),
        {
            AFTER: Column.of(ranges[number][0] for number in of_range.tolist()),
            THROUGH: Column.of(ranges[number][1] for number in of_range.tolist()),
            **{name: events.column(name).selected(rows[first]) for name in terms.key},
        },
        {terms.result_field or word: Column.of(aggregated(function, groups, len(distinct), values))},
        order=of_key[rows[first]],
        position=np.array([ranges[number][0] for number in of_range.tolist()], np.int64),
        surplus=of_range >= len(found.parts) + len(found.gaps),
    )


def _with_key(terms: Terms, events: History) -> np.ndarray:
    """An event without its whole key is in no window."""
    kept = np.ones(len(events), bool)
    for name in terms.key:
        kept &= events.column(name).array() != 0
    return np.flatnonzero(kept)


def _rows_of(ranges: list[Range], rows: np.ndarray, serials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The events of each range, and the number of the range of each of these."""
    rows = rows[np.argsort(serials[rows], kind="stable")]
    ordered = serials[rows]
    begin = np.searchsorted(ordered, [after for after, _ in ranges], side="right")
    end = np.searchsorted(ordered, [through for _, through in ranges], side="right")
    numbers = np.repeat(np.arange(len(ranges)), end - begin)
    within = np.arange(len(numbers)) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
    return rows[np.repeat(begin, end - begin) + within], numbers


def _fields(terms: Terms) -> list[str]:
    named = [terms.serial_field, terms.value_field]
    return [*terms.key, *(name for name in named if name is not None)]


def _rule(function: str, word: str, meaning: str, *needs: str) -> Rule:
    return Rule(
        meaning,
        needs,
        _fields,
        lambda terms: [*terms.key, AFTER, THROUGH, terms.result_field or word],
        lambda terms, events, results: _expected(function, word, terms, events, results),
    )


_OF_RANGE = "of --value-field in each range of serial numbers, for each key"

RULES = {
    "range-count": _rule("size", "count", "number of events in each range of serial numbers, for each key"),
    "range-sum": _rule("sum", "sum", f"sum {_OF_RANGE}", "value_field"),
    "range-min": _rule("min", "min", f"least {_OF_RANGE}", "value_field"),
    "range-max": _rule("max", "max", f"greatest {_OF_RANGE}", "value_field"),
    "range-average": _rule("mean", "average", f"mean {_OF_RANGE}", "value_field"),
}
