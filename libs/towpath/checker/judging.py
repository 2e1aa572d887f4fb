"""The verdict on a history of a million results: the same words as `judge`, computed on columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from towpath.checker.arrival import Arrival, arrival_of
from towpath.checker.columns import ABSENT, Column, combined
from towpath.checker.comparison import equal
from towpath.checker.expectation import Expectation
from towpath.checker.history import NEVER, History, doubles, longs
from towpath.checker.verdict import CLOCK_SKEW_S, EXAMPLES, REDELIVERY_SPAN, Verdict


@dataclass(frozen=True)
class Leniency:
    """What is not held against results."""

    tolerance: float = 1e-9
    """Relative difference of floating-point numbers."""
    late_after_s: float | None = None
    """Seconds from the newest event to the result; None: never late."""
    clock_skew_s: float = CLOCK_SKEW_S
    """Seconds by which clocks may differ."""
    redelivery_span: int = REDELIVERY_SPAN


def judge_history(
    expectation: Expectation,
    history: History,
    leniency: Leniency | None = None,
    stored: History | None = None,
) -> Verdict:
    """Compare what came, in order of receipt, with what should have come: see `judge` for the words.

    `stored` is what the log holds that the results were delivered from: an expected result that is there
    and did not come is `unseen`, and not `lost`. Raises `TowpathError` (invalid) if results do not have a
    field that identifies them.
    """
    return _Judging(expectation, history, leniency or Leniency()).verdict(stored)


@dataclass
class _Match:
    """Which results are which expected ones."""

    row: np.ndarray
    """Of each result, the expected row; `ABSENT` where there is none."""
    copy: np.ndarray
    """How many copies, redelivered ones aside, came before it."""
    times: np.ndarray
    """How often it should come."""


class _Judging:
    """One verdict in the making."""

    def __init__(self, expectation: Expectation, history: History, leniency: Leniency) -> None:
        self._expectation = expectation
        self._history = history
        self._leniency = leniency
        self._rows = len(history)
        self._arrival: Arrival = arrival_of(history, leniency.redelivery_span)
        self._verdict = Verdict(results=self._rows)

    def verdict(self, stored: History | None) -> Verdict:
        """Judge everything."""
        arrival, verdict = self._arrival, self._verdict
        match = self._match(self._history, ~arrival.redelivered)
        counted = ~arrival.redelivered
        verdict.redelivered = int(arrival.redelivered.sum())
        known = counted & (match.row != ABSENT)
        first = known & (match.copy < match.times)
        self._count("unexpected", counted & ~known, self._told)
        surplus = self._surplus(match, first)
        self._count("duplicated", (known & ~first) | surplus, self._told)
        self._compare(match, known)
        self._check_order(match, first)
        self._check_times(first)
        self._check_rising("stale_owner", longs(self._history.epochs), counted, self._history.jobs, False)
        self._check_rising("nonmonotonic", longs(self._history.offsets), counted, None, True)
        self._miss(match, first, stored)
        return verdict

    def _match(self, history: History, counted: np.ndarray) -> _Match:
        expectation, rows = self._expectation, len(history)
        ours, theirs, sizes = [], [], []
        for name, column in expectation.identity.items():
            observed = self._read(history, name)
            ours.append(column.array().astype(np.int64))
            theirs.append(observed.codes_in(column))
            sizes.append(len(column.values))
        both = [np.concatenate(pair) for pair in zip(ours, theirs, strict=True)]
        numbers = combined(both, sizes, expectation.rows + rows)
        wanted, came = numbers[: expectation.rows], numbers[expectation.rows :]
        came = np.where(np.frombuffer(bytes(history.readable), np.uint8) == 1, came, ABSENT)
        order = np.argsort(wanted, kind="stable")
        distinct, starts, times = np.unique(wanted[order], return_index=True, return_counts=True)
        if not len(distinct):
            nothing = np.zeros(rows, np.int64)
            return _Match(np.full(rows, ABSENT), nothing, nothing)
        place = np.minimum(np.searchsorted(distinct, came), len(distinct) - 1)
        found = (distinct[place] == came) & (came != ABSENT)
        copy = _copies(np.where(found, place, ABSENT), counted)
        row = order[starts[place] + np.minimum(copy, times[place] - 1)]
        return _Match(np.where(found, row, ABSENT), copy, np.where(found, times[place], 0))

    def _read(self, history: History, name: str) -> Column:
        if not any(history.readable):
            return Column(len(history))
        column = history.column(name)
        reading = self._expectation.readings.get(name)
        return column if reading is None else column.mapped(reading)

    def _surplus(self, match: _Match, first: np.ndarray) -> np.ndarray:
        if self._expectation.surplus is None:
            return np.zeros(self._rows, bool)
        return first & self._expectation.surplus[np.where(match.row == ABSENT, 0, match.row)]

    def _count(self, word: str, found: np.ndarray, describe: Callable[[int], str]) -> None:
        rows = np.flatnonzero(found)
        setattr(self._verdict, word, len(rows))
        for row in rows[:EXAMPLES].tolist():
            self._verdict.example(word, lambda row=row: describe(row))

    def _told(self, row: int) -> str:
        history = self._history
        place = f"{history.source}: line {history.lines[row]}"
        if not history.readable[row]:
            return f"{place} is no JSON object"
        fields = history.table.columns
        held = ", ".join(f"{name}={fields[name][row]!r}" for name in self._expectation.identity)
        return f"{place}: {held}"

    def _compare(self, match: _Match, known: np.ndarray) -> None:
        """Values are the same where their codes are; the others are looked at one by one."""
        rows = np.flatnonzero(known)
        wanted = match.row[rows]
        wrong = np.zeros(self._rows, bool)
        reasons: dict[int, str] = {}
        for name, column in self._values():
            if name in self._history.table.columns and self._rows:
                observed = self._history.table.columns[name]
                reading = self._expectation.readings.get(name)
                observed = observed if reading is None else observed.mapped(reading)
            else:
                observed = Column(self._rows)
            differs = observed.codes_in(column)[rows] != column.array()[wanted]
            for row, should in zip(rows[differs].tolist(), wanted[differs].tolist(), strict=True):
                if not equal(column[should], observed[row], self._leniency.tolerance):
                    wrong[row] = True
                    reasons.setdefault(row, f"{name} is {observed[row]!r}, not {column[should]!r}")
        self._count("wrong", wrong, lambda row: f"{self._told(row)}: {reasons[row]}")

    def _values(self) -> list[tuple[str, Column]]:
        expectation, table = self._expectation, self._history.table
        values = [
            (name, column)
            for name, column in expectation.values.items()
            if name not in expectation.if_present or table.has(name)
        ]
        if expectation.complete:
            asked = {*expectation.identity, *expectation.values}
            values += [(name, Column(expectation.rows)) for name in table.present() if name not in asked]
        return values

    def _check_order(self, match: _Match, first: np.ndarray) -> None:
        order, position = self._expectation.order, self._expectation.position
        if order is None or position is None:
            return
        rows = np.flatnonzero(first)
        places = position[match.row[rows]]
        highest = pd.Series(places).groupby(order[match.row[rows]]).cummax().to_numpy()
        found = np.zeros(self._rows, bool)
        found[rows] = places < highest
        self._count("out_of_order", found, lambda row: f"{self._told(row)} after a later one")

    def _check_times(self, first: np.ndarray) -> None:
        latency = doubles(self._history.received_at) - doubles(self._history.stored_at)

        def told(row: int) -> str:
            return f"{self._told(row)} after {latency[row]:.3f} s"

        with np.errstate(invalid="ignore"):
            self._count("premature", first & (latency < -self._leniency.clock_skew_s), told)
            if self._leniency.late_after_s is not None:
                self._count("late", first & (latency > self._leniency.late_after_s), told)

    def _check_rising(
        self, word: str, numbers: np.ndarray, counted: np.ndarray, within: Column | None, strictly: bool
    ) -> None:
        """Numbers that must not fall, as long as no redelivery can be the cause: of one subscriber."""
        rows = np.flatnonzero(counted & (numbers != NEVER))
        groups = [self._history.subscribers.array()[rows]]
        if within is not None:
            groups.append(within.array()[rows])
        of_rows = pd.Series(numbers[rows])
        highest = of_rows.groupby(groups).cummax().to_numpy()
        falls = numbers[rows] < highest
        if strictly:
            falls |= self._holds_another(rows, numbers[rows], highest, groups)
        found = np.zeros(self._rows, bool)
        found[rows] = falls & ~self._arrival.unsettled[rows]
        self._count(word, found, lambda row: f"{self._told(row)}: {numbers[row]} after a higher one")

    def _holds_another(
        self, rows: np.ndarray, numbers: np.ndarray, highest: np.ndarray, groups: list[np.ndarray]
    ) -> np.ndarray:
        """Whether the latest one at the highest number so far had the same number, and another text."""
        payloads = longs(self._history.payloads)[rows]
        # Where the latest of the highest is; as integers: a hash does not fit into a floating-point number.
        place = pd.Series(np.where(numbers == highest, np.arange(len(rows)), -1))
        before = place.groupby(groups).cummax().groupby(groups).shift(1, fill_value=-1).to_numpy()
        same = (before >= 0) & (numbers[before] == numbers)
        return same & (payloads[before] != payloads)

    def _miss(self, match: _Match, first: np.ndarray, stored: History | None) -> None:
        """What did not come: unseen if the log has it, else lost."""
        expectation = self._expectation
        missing = np.ones(expectation.rows, bool)
        missing[match.row[first]] = False
        needed = np.ones(expectation.rows, bool)
        for excused in (expectation.optional, expectation.surplus):
            needed &= True if excused is None else ~excused
        self._verdict.expected = int(needed.sum())
        missing &= needed
        unseen = np.zeros(expectation.rows, bool)
        if stored is not None:
            held = self._match(stored, np.ones(len(stored), bool))
            unseen[held.row[held.row != ABSENT]] = True
        for word, found in (("lost", missing & ~unseen), ("unseen", missing & unseen)):
            self._count(word, found, expectation.shown)


def _copies(groups: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Of each row, how many counted rows of its group are before it."""
    ones = pd.Series(counted.astype(np.int64))
    return (ones.groupby(groups).cumsum() - ones).to_numpy()
