"""Ask one query about one key: the moments of its answers, and the value at each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from towpath.outliers.algorithms import ALGORITHMS
from towpath.outliers.detection import Outlier, OutlierDetector
from towpath.queries.evaluation.cumulative import Cumulative, RunningTotals, cumulative
from towpath.queries.evaluation.estimates import bounds, estimate, interval
from towpath.queries.evaluation.expressions import holds, value_of
from towpath.queries.evaluation.functions import OF_TOTALS, OF_VALUES, Answer, correlation
from towpath.queries.evaluation.history import Entry, History, Origin
from towpath.queries.evaluation.sliding import SlidingTotals
from towpath.queries.evaluation.totals import Totals
from towpath.queries.functions import OUTLIERS
from towpath.queries.program import QueryProgram, is_of_panes
from towpath.queries.tree import CountWindow, Expression, TimeWindow, Use

CONFIDENCE = 0.95
"""Of the interval of an estimate that promises no error."""

_SCALED = ("COUNT", "SUM", "RUNNING_COUNT")

Bound = tuple[int, ...]
"""A position in the order of events: entries that are less lie before it."""


@dataclass(frozen=True)
class Moment:
    """When a query is asked."""

    at: int
    """Microseconds since 1970."""
    bound: Bound
    """Events before it count."""
    number: int = 0
    """Among the moments of a key with the same time."""


@dataclass
class Progress:
    """The memory that a query has of a key beside its history."""

    events: int = 0
    """Of `EVERY n EVENTS`: events so far."""
    states: dict[int, list[Any]] = field(default_factory=dict)
    """Position of a function of all values so far → its state."""


class Asking:
    """A query and the past of a key. Moments only rise."""

    def __init__(self, query: QueryProgram, history: History, progress: Progress) -> None:
        self._query, self._history, self._progress = query, history, progress
        self._uses = {use: at for at, use in enumerate(query.uses)}
        self._cumulative: dict[int, Cumulative] = {}
        self._consumed: dict[int, Bound] = {}
        self._sliding: dict[int, SlidingTotals] = {}
        self._detectors: dict[int, OutlierDetector] = {}
        self._windows: dict[Use, tuple[int, Totals]] = {}
        """Function → the end of the window of panes that it looked at last, and its totals."""

    def answers(self, done: int, until: int) -> Iterator[tuple[Moment, Any, Origin]]:
        """Return the answers of all moments with done < moment ≤ until, with their origins."""
        self._start(done)
        step = self._query.step_micros
        for moment in self._periodic(step, done, until) if step else self._of_events(done, until):
            value = self._value(moment)
            if value is not None and value != []:
                yield moment, value, self._origin(moment)
        self._finish(until)

    def next_moment(self, done: int) -> int | None:
        """Return the first moment behind `done` that may have an answer, if no event comes.

        The moments of events are known when time is past their pane.
        """
        step = self._query.step_micros
        if not step:
            return self._history.end_after(done)
        return next((moment.at for moment in self._periodic(step, done, None)), None)

    def _periodic(self, step: int, done: int, until: int | None) -> Iterator[Moment]:
        reach = self._query.reach_micros
        at = (done // step + 1) * step
        while until is None or at <= until:
            if not self._history.panes(at - reach, at):
                end = self._history.end_after(at)
                if end is None:
                    return
                at = max(-(-end // step) * step, at + step)
                continue
            if self._is_asked(at, step):
                yield Moment(at, (at,))
            at += step

    def _is_asked(self, at: int, step: int) -> bool:
        """Tell if there is an event of the query since the last moment, or a window has a value."""
        for use in self._uses:
            if isinstance(use.window, TimeWindow):
                end = at - use.offset_micros
                if self._has_value(use, end - use.window.micros, end):
                    return True
            if self._has_value(use, at - step, at):
                return True
        return False

    def _has_value(self, use: Use, start: int, end: int) -> bool:
        """Tell if a function finds a value in an event with start ≤ time < end."""
        if is_of_panes(use, self._query.every):
            by_end = self._history.totals.get(self._query.columns[use.arguments[0]], {})
            return any(pane in by_end for pane in self._history.panes(start, end))
        return bool(self._places(use, start, end))

    def _places(self, use: Use, start: int, end: int) -> set[tuple[int, int, int]]:
        """The places in the order of events at which a function finds a value."""
        found = []
        for argument in range(len(use.arguments)):
            entries = self._entries(use, argument)
            first, behind = bisect_left(entries, (start,)), bisect_left(entries, (end,))
            found.append({entry[:3] for entry in entries[first:behind]})
        return set.intersection(*found)

    def _of_events(self, done: int, until: int) -> Iterator[Moment]:
        size = self._query.every.events if isinstance(self._query.every, CountWindow) else 1
        places = set[tuple[int, int, int]]().union(*(self._places(use, done, until) for use in self._uses))
        before, number = -1, 0
        for time, source, serial in sorted(places):
            number = number + 1 if time == before else 0
            before = time
            self._progress.events += 1
            if self._progress.events % size == 0:
                yield Moment(time + 1, (time, source, serial + 1), number)

    def _origin(self, moment: Moment) -> Origin:
        if self._query.step_micros:
            return self._history.origin(moment.at - self._query.reach_micros, moment.at)
        end = self._history.end_after(moment.at - 1) or moment.at
        return self._history.origin(end - 1, end)

    def _value(self, moment: Moment) -> Any:
        def lookup(use: Expression) -> Any:
            assert isinstance(use, Use)
            return self._of_use(use, moment)

        try:
            value = value_of(self._query.expression, lookup)
            when = self._query.when
            return value if value is not None and (when is None or holds(when, lookup, value)) else None
        except OverflowError:
            return None

    def _of_use(self, use: Use, moment: Moment) -> Any:
        if use.window is None:
            value = self._so_far(use, moment.bound)
        elif is_of_panes(use, self._query.every):
            value = self._of_panes(use, moment.at - use.offset_micros)
        else:
            value = self._of_values(use, moment)
        sample = self._query.options.sample
        is_scaled = use.function in _SCALED and not isinstance(use.window, CountWindow)
        return value / sample if sample and is_scaled and value is not None else value

    def _of_panes(self, use: Use, end: int) -> Any:
        whole = self._totals(use, end)
        estimated = self._query.options.is_estimated
        return estimate(use.function, whole) if estimated else OF_TOTALS[use.function](whole)

    def _totals(self, use: Use, end: int) -> Totals:
        """The totals of a window's panes. What an estimate says of itself needs them once more."""
        if (known := self._windows.get(use)) is not None and known[0] == end:
            return known[1]
        assert isinstance(use.window, TimeWindow)
        by_end = self._history.totals.get(self._query.columns[use.arguments[0]], {})
        whole = Totals()
        for pane in self._history.panes(end - use.window.micros, end):
            if pane in by_end:
                whole.add(by_end[pane])
        self._windows[use] = end, whole
        return whole

    def about(self, moment: Moment) -> dict[str, float]:
        """Return what an estimate says of itself: its interval, and the share of events it was made from."""
        confidence = self._query.options.confidence or CONFIDENCE
        confidence_of_use = 1 - (1 - confidence) / len(self._uses)
        totals = {use: self._totals(use, moment.at - use.offset_micros) for use in self._uses}

        def of_use(use: Expression) -> tuple[float, float] | None:
            assert isinstance(use, Use)
            return interval(use.function, totals[use], confidence_of_use)

        found = bounds(self._query.expression, of_use)
        read = sum(one.count for one in totals.values())
        stand_for = sum(one.weighted.weight for one in totals.values())
        told = {} if found is None else {"low": found[0], "high": found[1], "confidence": confidence}
        return {**told, "sampled": read / stand_for if stand_for else 1.0}

    def _entries(self, use: Use, argument: int = 0) -> list[Entry]:
        return self._history.series.get(self._query.columns[use.arguments[argument]], [])

    def _end(self, use: Use, moment: Moment) -> Bound:
        """The end of a window."""
        return (moment.at - use.offset_micros,) if use.offset_micros else moment.bound

    def _bounds(self, entries: Sequence[Entry], use: Use, moment: Moment) -> tuple[int, int]:
        """The positions of a window's values."""
        behind = bisect_left(entries, self._end(use, moment))
        if isinstance(use.window, CountWindow):
            return max(behind - use.window.events, 0), behind
        assert use.window is not None
        return bisect_left(entries, (moment.at - use.offset_micros - use.window.micros,)), behind

    def _of_values(self, use: Use, moment: Moment) -> Any:
        entries = self._entries(use)
        first, behind = self._bounds(entries, use, moment)
        if use.function in OF_TOTALS:
            sliding = self._sliding.setdefault(self._uses[use], SlidingTotals(entries))
            return OF_TOTALS[use.function](sliding.between(first, behind))
        if use.function == "CORRELATION":
            return self._correlation(use, moment)
        chosen = entries[first:behind]
        if not chosen:
            return None
        if use.function == OUTLIERS:
            return self._outliers(use, entries, first, behind)
        return OF_VALUES[use.function]([entry[3] for entry in chosen], use.parameters)

    def _outliers(self, use: Use, entries: Sequence[Entry], first: int, behind: int) -> list[Any]:
        """The outliers of the window. It slides at moments only, so micro-batches do not count."""
        at = self._uses[use]
        detector = self._detectors[at] if at in self._detectors else self._detector(at)
        came = entries[bisect_left(entries, self._consumed[at]) : behind]
        found = detector.slide([entry[3] for entry in came], len(detector) + len(came) - (behind - first))
        self._consumed[at] = (*entries[behind - 1][:2], entries[behind - 1][2] + 1)
        return [{"time": entries[first + one.number - detector.expired][0], **_told(one)} for one in found]

    def _detector(self, at: int) -> OutlierDetector:
        options = self._query.options
        assert options.algorithm is not None
        assert options.k is not None
        assert options.r is not None
        detector = ALGORITHMS[options.algorithm](options.k, options.r)
        self._consumed[at] = (0,)
        if at in self._progress.states:
            bound, saved = self._progress.states[at]
            self._consumed[at] = tuple(bound)
            detector.restore(saved)
        self._detectors[at] = detector
        return detector

    def _correlation(self, use: Use, moment: Moment) -> Answer:
        """Of the events that have both values; a window by number has the newest of these."""
        sides = []
        for argument in (0, 1):
            entries = self._entries(use, argument)
            behind = bisect_left(entries, self._end(use, moment))
            first = 0
            if isinstance(use.window, TimeWindow):
                first = bisect_left(entries, (moment.at - use.offset_micros - use.window.micros,))
            sides.append({entry[:3]: entry[3] for entry in entries[first:behind]})
        pairs = [(value, sides[1][place]) for place, value in sides[0].items() if place in sides[1]]
        return correlation(pairs[-use.window.events :] if isinstance(use.window, CountWindow) else pairs)

    def _so_far(self, use: Use, bound: Bound) -> Any:
        self._consume(use, bound)
        return self._cumulative[self._uses[use]].value()

    def _consume(self, use: Use, bound: Bound) -> None:
        """Let a function of all values so far see those before a bound."""
        at = self._uses[use]
        known, before = self._cumulative[at], self._consumed[at]
        column = self._query.columns[use.arguments[0]]
        if is_of_panes(use, self._query.every):
            assert isinstance(known, RunningTotals)
            by_end = self._history.totals.get(column, {})
            for pane in self._history.panes(before[0], bound[0]):
                if pane in by_end:
                    known.add(by_end[pane])
        else:
            entries = self._history.series.get(column, [])
            for entry in entries[bisect_left(entries, before) : bisect_left(entries, bound)]:
                known.see(entry[3])
        self._consumed[at] = bound

    def _start(self, done: int) -> None:
        for use, at in self._uses.items():
            if use.window is None:
                self._cumulative[at] = cumulative(use.function, use.parameters)
                self._consumed[at] = (done,)
                if at in self._progress.states:
                    self._cumulative[at].restore(self._progress.states[at])

    def _finish(self, until: int) -> None:
        for use, at in self._uses.items():
            if use.window is None:
                self._consume(use, (until,))
                self._progress.states[at] = self._cumulative[at].saved()
            elif at in self._detectors:
                self._progress.states[at] = [self._consumed[at], self._detectors[at].saved()]


def _told(found: Outlier) -> dict[str, Any]:
    """Return an outlier for the answer."""
    told = {"value": found.value, "neighbours": found.neighbours, "explanation": found.explanation}
    return {**told, "cluster_distance": found.cluster_distance}


def kept_from(query: QueryProgram, history: History, moment: int) -> dict[str, Bound]:
    """Return from where on windows by number need the values of each column, at a moment and after it."""
    found: dict[str, Bound] = {}
    for use in query.uses:
        if isinstance(use.window, CountWindow):
            columns = [query.columns[argument] for argument in use.arguments]
            before = (moment - use.offset_micros,)
            sides = [history.series.get(column, []) for column in columns]
            bound = _newest_from([side[: bisect_left(side, before)] for side in sides], use.window.events)
            found.update({column: min(bound or before, found.get(column, before)) for column in columns})
    return found


def _newest_from(sides: Sequence[Sequence[Entry]], number: int) -> Bound | None:
    """Return the place of the first of the newest events that all sides have; None if there is none."""
    if len(sides) == 1:
        newest = sides[0][-number:]
        return newest[0][:3] if newest else None
    both = sorted(set.intersection(*({entry[:3] for entry in side} for side in sides)))[-number:]
    return both[0] if both else None
