"""The judge: compare received results with the expected ones, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from towpath.checker.columns import ABSENT, CodedColumn, combined
from towpath.checker.comparison import equal
from towpath.checker.expectation import (
    UNORDERED,
    Expectation,
    OrderKey,
    Truth,
    expectation_of,
    in_window_or_serial_order,
)
from towpath.checker.history import NEVER, History, doubles, longs, observed
from towpath.checker.identity import Identity, described
from towpath.checker.observation import ReceivedMessage, values_of
from towpath.checker.verdict import EXAMPLES, Leniency, Verdict


def judge(
    truth: Truth,
    observations: Iterable[ReceivedMessage],
    leniency: Leniency | None = None,
    *,
    order_key: OrderKey = in_window_or_serial_order,
    compared: Callable[[Mapping[str, Any]], Mapping[str, Any]] = values_of,
    surplus: Set[Identity] = frozenset(),
) -> Verdict:
    """Compare observations, in order of receipt, with the truth.

    `compared` picks the part of a result that must be as the truth has it. `surplus` are results in the truth
    that cover the same events as another one: they need not come, and are `duplicated` if they do.
    """
    expectation = expectation_of(truth, order_key, surplus)
    return judge_history(expectation, observed(observations, compared), leniency)


def judge_history(
    expectation: Expectation,
    history: History,
    leniency: Leniency | None = None,
    stored: History | None = None,
) -> Verdict:
    """Compare received results, in order of receipt, with the expected ones. `Verdict` explains the words.

    MQTT delivers QoS 1 messages *at least* once. When a connection breaks before an acknowledgement arrives,
    or when an acknowledgement is late, the broker delivers again. Such a copy says nothing about the job, so
    it counts as `redelivered`, not as `duplicated`. It must be of the same subscriber and have an equal
    payload. And either the broker set its DUP flag, or the copy came on a later connection, and the previous
    copy is among the last `redelivery_span` messages before the present connection began. A result that was
    published twice has no DUP flag: a copy without it, on the same connection, is always a duplicate.

    When a connection broke on the way, the broker may also bring a message for the first time after younger
    ones. So on later connections, the first `redelivery_span` messages are neither `stale_owner` nor
    `nonmonotonic`.

    `stored` is the log from which the results were delivered. An expected result that is there and did not
    come is `unseen`, and not `lost`. Raises `TowpathError` (invalid) if results do not have a field that
    identifies them.
    """
    return _Judging(expectation, history, leniency or Leniency()).verdict(stored)


@dataclass
class _Match:
    """For each result, the expected one that it is."""

    row: np.ndarray
    """The expected row; `ABSENT` where there is none."""
    copy: np.ndarray
    """Number of copies before it, redelivered ones not counted."""
    times: np.ndarray
    """Number of times that it should come."""


class _Judging:
    """One verdict in the making."""

    def __init__(self, expectation: Expectation, history: History, leniency: Leniency) -> None:
        self._expectation = expectation
        self._history = history
        self._leniency = leniency
        self._rows = len(history)
        self._redelivered, self._unsettled = _deliveries(history, leniency.redelivery_span)
        self._verdict = Verdict(results=self._rows)

    def verdict(self, stored: History | None) -> Verdict:
        """Judge everything."""
        verdict, counted = self._verdict, ~self._redelivered
        match = self._match(self._history, counted)
        verdict.redelivered = int(self._redelivered.sum())
        known = counted & (match.row != ABSENT)
        first = known & (match.copy < match.times)
        self._count("unexpected", counted & ~known, self._told)
        repeated = known & ~first
        if self._expectation.surplus is not None:
            repeated[first] = self._expectation.surplus[match.row[first]]
        self._count("duplicated", repeated, self._told)
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
            return _Match(np.full(rows, ABSENT), np.zeros(rows, np.int64), np.zeros(rows, np.int64))
        place = np.minimum(np.searchsorted(distinct, came), len(distinct) - 1)
        found = (distinct[place] == came) & (came != ABSENT)
        copy = _copies(np.where(found, place, ABSENT), counted)
        row = order[starts[place] + np.minimum(copy, times[place] - 1)]
        return _Match(np.where(found, row, ABSENT), copy, np.where(found, times[place], 0))

    def _read(self, history: History, name: str) -> CodedColumn:
        if not any(history.readable):
            return CodedColumn(len(history))
        column = history.column(name)
        reading = self._expectation.readings.get(name)
        return column if reading is None else column.mapped(reading)

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
        known_by = described({name: history.table.columns[name][row] for name in self._expectation.identity})
        return f"{place}: {known_by}" if history.source else known_by

    def _compare(self, match: _Match, known: np.ndarray) -> None:
        """Count wrong values. Equal codes mean equal values; the others are compared one by one."""
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
                observed = CodedColumn(self._rows)
            differs = observed.codes_in(column)[rows] != column.array()[wanted]
            for row, should in zip(rows[differs].tolist(), wanted[differs].tolist(), strict=True):
                if not equal(column[should], observed[row], self._leniency.tolerance):
                    wrong[row] = True
                    reasons.setdefault(row, f"{name} is {observed[row]!r}, not {column[should]!r}")
        self._count("wrong", wrong, lambda row: f"{self._told(row)}: {reasons[row]}")

    def _values(self) -> list[tuple[str, CodedColumn]]:
        expectation, table = self._expectation, self._history.table
        values = [
            (name, column)
            for name, column in expectation.values.items()
            if name not in expectation.if_present or table.has(name)
        ]
        if expectation.complete:
            asked = {*expectation.identity, *expectation.values}
            values += [(name, CodedColumn(expectation.rows)) for name in table.present() if name not in asked]
        return values

    def _check_order(self, match: _Match, first: np.ndarray) -> None:
        order, position = self._expectation.order, self._expectation.position
        if order is None or position is None:
            return
        rows = np.flatnonzero(first)
        rows = rows[order[match.row[rows]] != UNORDERED]
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
        self, word: str, numbers: np.ndarray, counted: np.ndarray, within: CodedColumn | None, strictly: bool
    ) -> None:
        """Count numbers of one subscriber that fall, unless a redelivery can be the cause."""
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
        found[rows] = falls & ~self._unsettled[rows]
        self._count(word, found, lambda row: f"{self._told(row)}: {numbers[row]} after a higher one")

    def _holds_another(
        self, rows: np.ndarray, numbers: np.ndarray, highest: np.ndarray, groups: list[np.ndarray]
    ) -> np.ndarray:
        """Return True where the latest message at the highest number had the same number and another text."""
        payloads = longs(self._history.payloads)[rows]
        # Places, not hashes: pandas makes floating-point numbers of them, into which a hash does not fit.
        place = pd.Series(np.where(numbers == highest, np.arange(len(rows)), -1))
        before = place.groupby(groups).cummax().groupby(groups).shift(1, fill_value=-1).to_numpy()
        same = (before >= 0) & (numbers[before] == numbers)
        return same & (payloads[before] != payloads)

    def _miss(self, match: _Match, first: np.ndarray, stored: History | None) -> None:
        """Count results that did not come: unseen if the log has them, else lost."""
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


def _deliveries(history: History, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Tell of each result if it is a copy that MQTT allows, and if the broker may have brought it late.

    That is so soon after the subscriber connected again.
    """
    subscribers = history.subscribers.array()
    connections, payloads = longs(history.connections), longs(history.payloads)
    table = pd.DataFrame({"subscriber": subscribers, "connection": connections, "payload": payloads})
    of_subscriber = table.groupby("subscriber", sort=False)
    place = of_subscriber.cumcount()
    changed = table["connection"] != of_subscriber["connection"].shift(1)
    began = place.where(changed).groupby(subscribers).ffill().astype("int64")
    before = place.groupby([table["subscriber"], table["payload"]]).shift(1)
    since = began - before
    marked = np.frombuffer(bytes(history.dups), bool)
    redelivered = ((since > 0) & (since <= span)) | (before.notna() & marked)
    unsettled = (began > 0) & (place - began < span)
    return redelivered.to_numpy(bool), unsettled.to_numpy(bool)


def _copies(groups: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """Return, for each row, the number of counted rows of its group before it."""
    ones = pd.Series(counted.astype(np.int64))
    return (ones.groupby(groups).cumsum() - ones).to_numpy()
