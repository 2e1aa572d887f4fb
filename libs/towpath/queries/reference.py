"""Say slowly what all answers are: docs/query-language.md, "Meaning", sentence by sentence.

This is what other evaluations are compared with. It computes each answer from all events.
It knows the tree and the meaning of a text, and nothing of how queries are run.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import xxhash

from towpath.contracts.fields import FieldType
from towpath.queries.meaning import ALL_SITES, HERE, SITE, FieldFilter, Query, QuerySet
from towpath.queries.reference_functions import (
    arithmetic,
    correlation,
    geohash,
    of_one_value,
    of_values,
    outliers,
)
from towpath.queries.tree import (
    Argument,
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    CountWindow,
    Either,
    Expression,
    Grouping,
    Membership,
    Metric,
    Negative,
    Number,
    TimeWindow,
    Use,
)

Value = float | str | bool | None
Key = tuple[tuple[str, Any], ...]
"""Names in `BY`, with their values."""


@dataclass(frozen=True)
class Event:
    """An event as a device or a job published it."""

    site: str
    topic: str
    serial: int
    time: int
    """When its site stored it, in microseconds since 1970."""
    fields: dict[str, Value]


@dataclass(frozen=True)
class Answer:
    """One value that a query publishes."""

    query: str
    moment: int
    """T, in microseconds since 1970."""
    key: Key
    value: float | list[Any]

    @property
    def time(self) -> int:
        """The time that it has as an event."""
        return self.moment - 1


@dataclass(frozen=True)
class _Seen:
    """An event, or the answer of another query, as queries see it."""

    order: tuple[Any, ...]
    """Its place in the order of events."""
    time: int
    fields: Mapping[str, Value]
    streams: frozenset[str] = frozenset()
    """The streams it belongs to."""
    serial: int = 0
    insight: str | None = None
    """The query whose answer it is."""


def answers(queries: QuerySet, events: Iterable[Event], until: int) -> list[Answer]:
    """Return all answers with T <= `until`.

    They come query by query as in `queries`, then in the order of T, of keys, and of the events they follow.
    """
    seen = _belonging(queries, events)
    found: dict[str, list[Answer]] = {}
    for query in queries.queries:
        read = {argument.insight for argument in query.arguments if argument.insight is not None}
        inputs = [*_sample(seen, query.options.sample)]
        inputs += [one for name in read for one in _as_events(name, found[name])]
        found[query.name] = list(_answers(query, sorted(inputs, key=lambda one: one.order), until))
    return [answer for made in found.values() for answer in made]


# Time: which events count, and their order.


def _belonging(queries: QuerySet, events: Iterable[Event]) -> list[_Seen]:
    """The events that belong to a stream. With another time in another stream, an event is seen twice."""
    newest: dict[Any, int] = {}
    delay = max((source.delay_micros for source in queries.sources.values()), default=0)
    seen = []
    for event in sorted(events, key=lambda event: event.serial):
        if not all(_is_of_type(kind, event.fields.get(name)) for name, kind in queries.types.items()):
            continue
        streams: dict[int, set[str]] = {}
        for source in queries.sources.values():
            if source.topic != event.topic or not {HERE, ALL_SITES, event.site} & {*source.sites}:
                continue
            time = event.time if source.time is None else _micros(event.fields.get(source.time))
            if time is None:
                continue
            here = (event.topic, event.site, source.time)
            newest[here] = max(time, newest.get(here, time))
            is_late = time < newest[here] - delay
            if not is_late and all(_passes(each, event.fields) for each in source.filters):
                streams.setdefault(time, set()).add(source.name)
        for time, names in streams.items():
            order = (time, 0, event.site, event.topic, event.serial)
            fields = {**event.fields, SITE: event.site}
            seen.append(_Seen(order, time, fields, frozenset(names), event.serial))
    return seen


def _is_of_type(kind: FieldType, value: Value) -> bool:
    """Has the field the type that its uses ask for? If not, the event is rejected."""
    if value is None:
        return True
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    match kind:
        case FieldType.STRING:
            return isinstance(value, str)
        case FieldType.BOOLEAN:
            return isinstance(value, bool)
        case FieldType.TIMESTAMP:
            return _micros(value) is not None
        case FieldType.LONG:
            return is_number and float(value) == int(value)
        case FieldType.DOUBLE:
            return is_number


def _micros(text: Value) -> int | None:
    """The microseconds since 1970 of an ISO 8601 timestamp, UTC if it names no zone."""
    try:
        time = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _passes(each: FieldFilter, fields: Mapping[str, Value]) -> bool:
    value = fields.get(each.field)
    if each.value is None:
        return value is not None
    if each.is_prefix:
        return isinstance(value, str) and value.startswith(str(each.value))
    return value is not None and value == each.value


def _sample(seen: Iterable[_Seen], share: float | None) -> Iterator[_Seen]:
    """The events of a sample are chosen by their serial numbers."""
    for one in seen:
        digest = xxhash.xxh64(struct.pack("<q", one.serial), seed=42).digest()
        if share is None or int.from_bytes(digest, "big", signed=True) % 1_000_000 < share * 1_000_000:
            yield one


def _as_events(query: str, made: Sequence[Answer]) -> Iterator[_Seen]:
    """Answers as events. They follow events of the same time, in the order of queries' names and of keys."""
    for number, answer in enumerate(made):
        order = (answer.time, 1, query, tuple(value for _, value in answer.key), number)
        yield _Seen(order, answer.time, {**dict(answer.key), "value": answer.value}, insight=query)  # type: ignore[dict-item]


# Keys and moments: who is asked, and when.


def _answers(query: Query, seen: Sequence[_Seen], until: int) -> Iterator[Answer]:
    keys: dict[Key, list[_Seen]] = {}
    for one in seen:
        key = _key(query.by, one)
        if key is not None and any(_values(use, one) is not None for use in query.uses):
            keys.setdefault(key, []).append(one)
    moments = [
        (moment, key, visible)
        for key, events in keys.items()
        for moment, visible in _moments(query, events, until)
    ]
    for moment, key, visible in sorted(moments, key=lambda one: (one[0], [value for _, value in one[1]])):
        value = _answer(query, moment, visible)
        if value is not None and value != []:
            yield Answer(query.name, moment, key, value)


def _key(by: Sequence[Grouping], one: _Seen) -> Key | None:
    """The key of an event. None if it lacks a field of `BY`, and so belongs to no key of the query."""
    values = [_grouped(grouping, one) for grouping in by]
    if any(value is None for value in values):
        return None
    return tuple((grouping.name, value) for grouping, value in zip(by, values, strict=True))


def _grouped(grouping: Grouping, one: _Seen) -> Value:
    if grouping.geohash is None or one.insight is not None:
        return one.fields.get(grouping.name)
    latitude, longitude = (one.fields.get(name) for name in grouping.fields)
    if latitude is None or longitude is None or not (abs(latitude) <= 90 and abs(longitude) <= 180):  # type: ignore[arg-type]
        return None
    return geohash(float(latitude), float(longitude), grouping.geohash)


def _moments(query: Query, events: Sequence[_Seen], until: int) -> Iterator[tuple[int, Sequence[_Seen]]]:
    """The moments at which a key is asked, each with the events that count. `events` are all of the query."""
    if not isinstance(query.every, TimeWindow):
        n = 1 if query.every is None else query.every.events
        for number, event in enumerate(events, 1):
            if number % n == 0 and event.time + 1 <= until:
                yield event.time + 1, events[:number]
        return
    every = query.every.micros
    asked: set[int] = set()
    for event in events:
        spans = [(event.time, event.time + every)]
        for use in query.uses:
            if isinstance(use.window, TimeWindow) and _values(use, event) is not None:
                begin = event.time + use.offset_micros
                spans.append((begin, begin + use.window.micros))
        for begin, end in spans:
            # An event lies in the window of T if begin < T <= end.
            asked.update(range((begin // every + 1) * every, min(end, until) + 1, every))
    for moment in sorted(asked):
        yield moment, [event for event in events if event.time < moment]


# Windows and values: what an answer is.


def _answer(query: Query, moment: int, visible: Sequence[_Seen]) -> float | list[Any] | None:
    def used(use: Expression) -> Any:
        assert isinstance(use, Use)
        return _use(use, query, moment, visible)

    value = _evaluated(query.expression, used)
    is_kept = query.when is None or _holds(query.when, value, used)
    return value if is_kept else None


def _use(use: Use, query: Query, moment: int, visible: Sequence[_Seen]) -> Any:
    """The value of a function at a moment, of the events that count there."""
    found = [(one, values) for one in visible if (values := _values(use, one)) is not None]
    end = moment - use.offset_micros
    match use.window:
        case TimeWindow(micros):
            found = [(one, values) for one, values in found if end - micros <= one.time < end]
        case CountWindow(count):
            found = [(one, values) for one, values in found if one.time < end][-count:]
    if use.function == "CORRELATION":
        return correlation([(x, y) for _, (x, y) in found])
    singles = [values[0] for _, values in found]
    if use.function == "OUTLIER_DETECTION":
        assert query.options.k is not None
        assert query.options.r is not None
        timed = [(one.time, value) for (one, _), value in zip(found, singles, strict=True)]
        return outliers(timed, query.options.k, query.options.r)
    value = of_values(use.function, use.parameters, singles)
    is_scaled = use.function in ("COUNT", "SUM", "RUNNING_COUNT") and not isinstance(use.window, CountWindow)
    return arithmetic("/", value, query.options.sample) if is_scaled and query.options.sample else value  # type: ignore[arg-type]


def _values(use: Use, one: _Seen) -> tuple[Any, ...] | None:
    """The values of a function's arguments in an event; None if it lacks one."""
    values = tuple(_found(argument, one) for argument in use.arguments)
    return None if any(value is None for value in values) else values


def _found(argument: Argument, one: _Seen) -> Any:
    is_seen = one.insight == argument.insight if argument.insight else one.streams & {*argument.streams}
    if not is_seen:
        return None

    def field(metric: Expression) -> Value:
        assert isinstance(metric, Metric)
        value = one.fields.get(metric.name)
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    value = _evaluated(argument.value, field)
    return value if argument.where is None or _holds(argument.where, value, field) else None


def _evaluated(expression: Expression, leaf: Callable[[Expression], Any]) -> Any:
    """The value of an expression, whose functions of events, or fields of an event, `leaf` knows."""
    match expression:
        case Number(value):
            return value
        case Negative(value):
            inner = _evaluated(value, leaf)
            return None if inner is None else -inner
        case Arithmetic(operator, left, right):
            return arithmetic(operator, _evaluated(left, leaf), _evaluated(right, leaf))
        case Call(function, _, (argument,)):
            return of_one_value(function, _evaluated(argument, leaf))
        case _:
            return leaf(expression)


def _holds(condition: Condition, about: Any, leaf: Callable[[Expression], Any]) -> bool:
    """Does a condition hold? `about` is the value of which a condition speaks that names none."""
    match condition:
        case Both(left, right):
            return _holds(left, about, leaf) and _holds(right, about, leaf)
        case Either(left, right):
            return _holds(left, about, leaf) or _holds(right, about, leaf)
        case Membership(left, values):
            value = about if left is None else _evaluated(left, leaf)
            return value is not None and value in values
        case Comparison(left, operator, right):
            value = about if left is None else _evaluated(left, leaf)
            other = right if isinstance(right, str) else _evaluated(right, leaf)
            return value is not None and other is not None and _compares(value, operator, other)


def _compares(left: Any, operator: str, right: Any) -> bool:
    return {
        "==": left == right,
        "!=": left != right,
        ">": left > right,
        "<": left < right,
        ">=": left >= right,
        "<=": left <= right,
    }[operator]
