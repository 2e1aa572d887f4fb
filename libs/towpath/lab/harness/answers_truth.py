"""The truth about a job that answers queries: the language's reference over the events of its streams.

It judges queries that answer at times, over windows of time, of events that say when they happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import accumulate

from towpath.checker.identity import Identity, WindowIdentity, utc
from towpath.checker.observation import ReceivedMessage
from towpath.checker.verdict import Verdict
from towpath.contracts.operators import Query
from towpath.lab.harness.answers import EPOCH, expected_identity, judge_answers, micros, moment_of, query_of
from towpath.queries import meaning
from towpath.queries.checking import check
from towpath.queries.parsing import parse
from towpath.queries.reference import Answer, Event, answers
from towpath.queries.tree import Options, TimeWindow

STRETCH_MICROS = 20_000_000
"""Event time whose answers are computed at once: the reference looks at all events for each of them."""

NOT_DUE_MICROS = 1_000_000
"""Event time before the watermark whose answers are not due yet: the panes of the last second may wait."""

FUNCTIONS = frozenset({"AVG", "COUNT", "MAX", "MIN", "SUM"})
"""Those of a window of events, whatever came before it."""


def can_be_judged(query: Query) -> bool:
    """Return true if all answers of a text follow from the events of their windows."""
    found = _meaning(query)
    timed = {source.time for source in found.used}
    return len(timed) == 1 and None not in timed and all(_is_of_windows(each) for each in found.queries)


def extends(before: Query, after: Query) -> bool:
    """Return true if a text has all queries of another one, as they were."""
    old, new = _meaning(before), _meaning(after)
    return set(old.queries) <= set(new.queries) and old.sources.items() <= new.sources.items()


def disorder_s(query: Query, events: Sequence[Event]) -> float:
    """Return the seconds by which an event came later than the streams of a text allow; 0 if none did."""
    late = [
        newest - at - _delay(query)
        for times in _times(query, events).values()
        for at, newest in zip(times, accumulate(times, max), strict=True)
    ]
    return max(0, *late) / 1e6 if late else 0.0


@dataclass(frozen=True)
class AnswersTruth:
    """The answers that a job should have published by now, given what its streams hold."""

    expected: Sequence[Answer]
    until: datetime
    """No answer of a later moment is due, or judged."""
    added: frozenset[str]
    """Queries that have joined the text. What they answer is judged as soon as their windows are whole."""
    whole_by: datetime
    """From this moment on, windows of added queries are whole. They may be sooner: see `_begins`."""
    reach: timedelta
    """The longest window."""

    @classmethod
    def of(
        cls, query: Query, before: Query, events: Sequence[Event], joined_by: datetime = EPOCH
    ) -> AnswersTruth:
        """Compute the truth about a text that `can_be_judged`. The job began with the one `before`.

        Its further queries had joined when the newest event was of the time `joined_by`.
        """
        found, reach = _meaning(query), _reach(query)
        newest = [max(times) for times in _times(query, events).values()]
        until = max(0, min(newest, default=0) - _delay(query) - NOT_DUE_MICROS)
        added = {each.name for each in found.queries} - {each.name for each in _meaning(before).queries}
        return cls(
            list(_answers(query, events, until)),
            EPOCH + timedelta(microseconds=until),
            frozenset(added),
            joined_by + timedelta(microseconds=reach),
            timedelta(microseconds=reach),
        )

    def complete(self, came: AbstractSet[Identity]) -> bool:
        """Return true if all answers have come."""
        return all(expected_identity(answer) in came for answer in self._due(came))

    def verdict(self, observations: Sequence[ReceivedMessage], *, in_order: bool = False) -> Verdict:
        """Judge all answers since the job's deployment. Their order is never judged."""
        came = {each.identity for each in observations}
        judged = [each for each in observations if moment_of(each) <= self.until]
        return judge_answers([*self._due(came), *self._partial(judged)], judged)

    def _partial(self, observations: Sequence[ReceivedMessage]) -> list[Answer]:
        """Return what added queries said first of windows that were not whole: only repetitions are wrong."""
        begins = self._begins({each.identity for each in observations})
        said: dict[Identity, Answer] = {}
        for each in observations:
            query, moment = query_of(each), moment_of(each)
            if moment < begins.get(query, EPOCH):
                key = tuple((name, value) for name, value in each.body["key"].items() if name != "query")
                said.setdefault(
                    each.identity, Answer(query, micros(moment), key, each.body["values"]["value"])
                )
        return list(said.values())

    def _due(self, came: Iterable[Identity]) -> list[Answer]:
        begins = self._begins(came)
        return [
            each
            for each in self.expected
            if EPOCH + timedelta(microseconds=each.moment) >= begins.get(each.query, EPOCH)
        ]

    def _begins(self, came: Iterable[Identity]) -> Mapping[str, datetime]:
        """Return the moment from which the windows of each added query are whole.

        Its first answer shows that it had joined. If that is missing, or late, `whole_by` counts.
        """
        begins = dict.fromkeys(self.added, self.whole_by)
        for each in came:
            if isinstance(each, WindowIdentity) and each.job in self.added:
                begins[each.job] = min(each.end + self.reach, begins[each.job])
        return begins


def _meaning(query: Query) -> meaning.QuerySet:
    return _checked(query.text, tuple(sorted(query.filled.items())))


@lru_cache(maxsize=16)
def _checked(text: str, filled: tuple[tuple[str, str], ...]) -> meaning.QuerySet:
    return check(parse(text), dict(filled))


def _is_of_windows(query: meaning.Query) -> bool:
    windows = all(use.function in FUNCTIONS and isinstance(use.window, TimeWindow) for use in query.uses)
    return windows and isinstance(query.every, TimeWindow) and query.options == Options()


def _reach(query: Query) -> int:
    """Return the microseconds before an answer in which its events are."""
    uses = [use for each in _meaning(query).queries for use in each.uses]
    return max(use.offset_micros + use.window.micros for use in uses if isinstance(use.window, TimeWindow))


def _delay(query: Query) -> int:
    return max(source.delay_micros for source in _meaning(query).used)


def _timed(query: Query, events: Iterable[Event]) -> list[tuple[int, Event]]:
    """Return the events of a judged text that have a time, with it, in microseconds since 1970."""
    name = str(_meaning(query).used[0].time)
    return [(micros(utc(str(event.fields[name]))), event) for event in events if name in event.fields]


def _times(query: Query, events: Iterable[Event]) -> dict[tuple[str, str], list[int]]:
    """Return the times of the events of each site and topic, in the order of serial numbers."""
    times: dict[tuple[str, str], list[int]] = {}
    for at, event in _timed(query, events):
        times.setdefault((event.site, event.topic), []).append(at)
    return times


def _answers(query: Query, events: Sequence[Event], until: int) -> Iterator[Answer]:
    timed = _timed(query, events)
    begin, reach = min((at for at, _ in timed), default=until) - 1, _reach(query)
    while begin < until:
        end = min(begin + STRETCH_MICROS, until)
        near = [event for at, event in timed if begin - reach <= at < end]
        yield from (each for each in answers(_meaning(query), near, end) if each.moment > begin)
        begin = end
