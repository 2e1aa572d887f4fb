"""Find what a query text means: its names, the types of its fields, and the order of its queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from towpath.contracts.fields import FieldType
from towpath.queries.functions import FUNCTIONS, OUTLIERS, Form
from towpath.queries.meaning import SITE, Query, QuerySet
from towpath.queries.problems import problem
from towpath.queries.program import ESTIMATED
from towpath.queries.providers import declared, field_name
from towpath.queries.row_reader import RowReader
from towpath.queries.scope import Scope
from towpath.queries.tree import (
    VALUE,
    Argument,
    Arithmetic,
    Both,
    Call,
    Comparison,
    Condition,
    Either,
    Expression,
    Filtered,
    Insight,
    Membership,
    Metric,
    Negative,
    Number,
    Place,
    QueryText,
    Stream,
    TimeWindow,
    Use,
    metrics_in,
    parts_of,
)

ESTIMATED_EVERY = TimeWindow(1_000_000)
"""Moments of a query that is estimated and has no EVERY: it does not see each event."""


def check(text: QueryText, filled: Mapping[str, str] | None = None) -> QuerySet:
    """Return what a text means. `filled` has a value for each `{name}` in the parameters of its streams.

    Raises `TowpathError` with line and column, what was found there, and what could stand there.
    """
    check_names(text)
    scope = Scope(
        {stream.name: declared(stream, filled or {}) for stream in text.streams},
        {insight.name: insight for insight in text.insights},
    )
    _check_times(text, scope)
    _check_schedulers(text)
    queries = {insight.name: query_of(insight, scope) for insight in text.insights}
    placed: dict[str, Query] = {}
    for name in _order(scope, queries):
        query = _with_squares(queries[name], placed)
        _check_answers_read(query, placed, scope)
        _check_streams_read(query, scope)
        placed[name] = query
    sources = {name: one.source for name, one in scope.streams.items()}
    return QuerySet(sources, tuple(placed.values()), scope.types.found())


def check_names(text: QueryText) -> None:
    """Raise `TowpathError` if two statements of a text have the same name."""
    names: dict[str, Place] = {}
    for one in text.statements:
        if one.name in names:
            what = f"two statements are called {one.name!r}; the first stands in line {names[one.name].line}"
            raise problem(one.place, what, found=one.name)
        names[one.name] = one.place


def _check_times(text: QueryText, scope: Scope) -> None:
    """Raise `TowpathError` if two streams say differently when the events of one topic happened."""
    first: dict[str, Stream] = {}
    for stream in text.streams:
        source = scope.streams[stream.name].source
        other = first.setdefault(source.topic, stream)
        if scope.streams[other.name].source.time != source.time:
            what = f"the events of a topic have one time, and {other.name!r} names another field for it"
            raise problem(stream.place, what, found=stream.name, allowed="the same `time` in both streams")


def _check_schedulers(text: QueryText) -> None:
    """Raise `TowpathError` if queries name different schedulers: one job answers all of them."""
    named = [insight for insight in text.insights if insight.options.scheduler is not None]
    for insight in named:
        first, name = named[0], insight.options.scheduler
        if name != first.options.scheduler:
            what = f"one job answers all queries of a text, and {first.name!r} names another SCHEDULER"
            raise problem(insight.place, what, found=name, allowed="the same in both, or two texts")


def _order(scope: Scope, queries: Mapping[str, Query]) -> Iterator[str]:
    """The queries, each after those whose answers it reads."""
    reads = {name: query.reads_answers_of for name, query in queries.items()}
    try:
        yield from TopologicalSorter(reads).static_order()
    except CycleError as error:
        circle = [str(name) for name in error.args[1]]
        place = scope.insights[circle[0]].place
        what = f"queries read each other's answers in a circle: {' ← '.join(circle)}"
        raise problem(place, what, found=circle[0]) from None


def query_of(insight: Insight, scope: Scope) -> Query:
    """Return what a query means. Raises `TowpathError` that names the place."""
    reader = _Reader(insight, scope)
    expression = reader.whole(insight.expression)
    when = None if insight.when is None else reader.condition(insight.when)
    every = insight.every
    if every is None and insight.options.is_estimated:
        every = ESTIMATED_EVERY
    query = Query(insight.name, expression, when, every, insight.by, insight.options)
    _check_query(insight, query)
    if query.options.is_estimated:
        _check_estimated(insight, query)
    return query


def _with_squares(query: Query, placed: Mapping[str, Query]) -> Query:
    """Return a query whose `BY` has the squares that it names as the queries it reads do."""
    given = [grouping for read in query.reads_answers_of for grouping in placed[read].by]
    squares = {grouping.name: grouping for grouping in given if grouping.geohash is not None}
    by = [squares.get(one.name, one) if one.geohash is None else one for one in query.by]
    return replace(query, by=tuple(by))


def _check_answers_read(query: Query, placed: Mapping[str, Query], scope: Scope) -> None:
    """Refuse what the answers of another query cannot give."""
    for read in query.reads_answers_of:
        place, given = scope.insights[query.name].place, placed[read].by
        for grouping in query.by:
            names = [one.name for one in given]
            if grouping not in given and (grouping.geohash is not None or grouping.name not in names):
                by = f"{'that square ' if grouping.geohash is not None else ''}{grouping.name!r}"
                what = f"{query.name!r} reads the answers of {read!r}, which are not by {by}"
                allowed = names or f"no BY, or BY in {read!r} too"
                raise problem(grouping.place, what, found=grouping.name, allowed=allowed)
        for option in ("sample", "max_error", "salience"):
            if getattr(query.options, option) is not None:
                what = f"{option.upper()} chooses events of streams, and {query.name!r} reads answers"
                raise problem(place, what, allowed=f"{option.upper()} in {read!r}")


def _check_streams_read(query: Query, scope: Scope) -> None:
    """Note what the clause `BY` shows of fields."""
    for grouping in query.by if any(argument.streams for argument in query.arguments) else ():
        if grouping.fields == (SITE,):
            continue
        for name in (field_name(name, grouping.place) for name in grouping.fields):
            if grouping.geohash is not None:
                scope.types.show(name, FieldType.DOUBLE, grouping.place)
            else:
                scope.types.grouped.add(name)


def _check_query(insight: Insight, query: Query) -> None:
    if not query.uses:
        raise problem(
            insight.place, f"{query.name!r} reads no stream", allowed="a function of a metric, or a metric"
        )
    names = [grouping.name for grouping in query.by]
    if len(set(names)) < len(names):
        raise problem(insight.place, "BY names a field twice", found=names[-1])
    detects = isinstance(query.expression, Use) and query.expression.function == OUTLIERS
    if detects and query.options.algorithm is None:
        what = "outliers are detected by an algorithm"
        raise problem(insight.place, what, allowed="WITH ALGORITHM pmcod AND K=50 AND R=0.5")
    if not detects and query.options.algorithm is not None:
        raise problem(insight.place, f"ALGORITHM belongs to {OUTLIERS}", allowed=f"COMPUTE {OUTLIERS}(…)")
    if detects and not isinstance(query.every, TimeWindow):
        raise problem(
            insight.place, f"{OUTLIERS} needs EVERY, the slide of its window", allowed="EVERY 5 SECONDS"
        )


def _check_estimated(insight: Insight, query: Query) -> None:
    """Refuse what cannot be estimated from a part of the events."""
    option = "MAX_ERROR" if query.options.max_error is not None else "SALIENCE"
    if not isinstance(query.every, TimeWindow):
        what = f"{option} leaves out events, so there is no n-th one"
        raise problem(insight.place, what, allowed="EVERY 10 SECONDS")
    for use in query.uses:
        if use.function not in ESTIMATED or not isinstance(use.window, TimeWindow):
            what = f"{option} is for estimates, and {use.function} of this window is none"
            allowed = [f"{name}(…, 10 MINUTES)" for name in sorted(ESTIMATED)]
            raise problem(insight.place, what, found=use.function, allowed=allowed)
    for part in parts_of(query.expression) if option == "MAX_ERROR" else ():
        match part:
            case Arithmetic(operator) if operator not in ("*", "/"):
                found = operator
            case Call(function):
                found = function
            case _:
                continue
        what = "errors relative to a value follow from those of its factors alone"
        allowed = "products and quotients of functions and numbers"
        raise problem(insight.place, what, found=found, allowed=allowed)


@dataclass(frozen=True)
class _Reader:
    """Finds the meaning of one query's expressions."""

    insight: Insight
    scope: Scope

    def whole(self, expression: Expression) -> Expression:
        """The expression of a query, which alone may be a list."""
        if isinstance(expression, Call) and FUNCTIONS[expression.function].is_list:
            return self._use(expression)
        return self._value(expression)

    def condition(self, condition: Condition) -> Condition:
        """A condition on answers."""
        match condition:
            case Both(left, right):
                return Both(self.condition(left), self.condition(right))
            case Either(left, right):
                return Either(self.condition(left), self.condition(right))
            case Comparison(left, operator, right, place=place):
                if isinstance(right, str):
                    what = "answers are numbers; texts are compared inside a function's parentheses"
                    raise problem(place, what, found=right, allowed='COUNT(carrier WHEN == "AA", 1 HOURS)')
                return Comparison(self._left(left, place), operator, self._value(right), place=place)
            case Membership(left, values):
                texts = [value for value in values if isinstance(value, str)]
                if texts:
                    what = "answers are numbers; texts are compared inside a function's parentheses"
                    raise problem(self.insight.place, what, found=texts[0], allowed="numbers")
                return Membership(self._left(left, self.insight.place), values)

    def _left(self, left: Expression | None, place: Place) -> Expression | None:
        whole = self.insight.expression
        if left is None and isinstance(whole, Call) and FUNCTIONS[whole.function].is_list:
            what = f"{whole.function} returns a list, which is not compared"
            raise problem(place, what, allowed="a value in front of the comparison")
        return None if left is None else self._value(left)

    def _value(self, expression: Expression) -> Expression:
        match expression:
            case Number():
                return expression
            case Negative(value):
                return Negative(self._value(value))
            case Arithmetic(operator, left, right, place=place):
                return Arithmetic(operator, self._value(left), self._value(right), place=place)
            case Call() if FUNCTIONS[expression.function].form is Form.MAP:
                return replace(expression, arguments=tuple(self._value(one) for one in expression.arguments))
            case Call() if FUNCTIONS[expression.function].is_list:
                what = f"{expression.function} returns a list, so it stands alone"
                raise problem(expression.place, what, allowed=f"COMPUTE {expression.function}(…)")
            case Call():
                return self._use(expression)
            case Metric():
                argument = self._argument(expression, FieldType.DOUBLE)
                return Use(VALUE, (), (argument,))
            case _:
                what = "WHEN inside an expression belongs into a function's parentheses"
                raise problem(self.insight.place, what, allowed="AVG(delay WHEN > 15, 1 HOURS)")

    def _use(self, call: Call) -> Use:
        function = FUNCTIONS[call.function]
        needs = None if function.takes_texts else FieldType.DOUBLE
        arguments = tuple(self._argument(one, needs, call) for one in call.arguments)
        if len({(one.streams, one.insight) for one in arguments}) > 1:
            what = f"the values of {call.function} come of the same events"
            raise problem(call.place, what, allowed="metrics of the same streams")
        offset = call.offset.micros if call.offset else 0
        return Use(call.function, call.parameters, arguments, call.window, offset)

    def _argument(self, value: Expression, needs: FieldType | None, call: Call | None = None) -> Argument:
        where = value.where if isinstance(value, Filtered) else None
        inner = value.value if isinstance(value, Filtered) else value
        for part in parts_of(value):
            if isinstance(part, Call) and FUNCTIONS[part.function].form is not Form.MAP:
                what = f"{part.function} computes answers, and functions take metrics"
                raise problem(part.place, what, allowed="a query of its own, and its name here")
        metrics = [*metrics_in(inner)]
        if not metrics:
            place = call.place if call else self.insight.place
            raise problem(place, "a function takes at least one metric", allowed="a metric or a stream")
        streams, insight = self._origin(metrics)
        row = RowReader(self.scope, streams, insight)
        made = row.value(inner, needs)
        condition = None if where is None else row.condition(where, made)
        return Argument(streams, made, condition, insight)

    def _origin(self, metrics: list[Metric]) -> tuple[tuple[str, ...], str | None]:
        """The streams, or the query, whose events have the metrics."""
        origins = [self._origin_of(metric) for metric in metrics]
        if len(set(origins)) > 1:
            what = "values of different streams meet in different functions, not in one"
            raise problem(
                metrics[-1].place, what, allowed='AVG("a" FROM (s1), 1 m) / AVG("b" FROM (s2), 1 m)'
            )
        return origins[0]

    def _origin_of(self, metric: Metric) -> tuple[tuple[str, ...], str | None]:
        streams, insights = self.scope.streams, self.scope.insights
        for name in metric.streams:
            if name not in streams:
                raise problem(metric.place, f"there is no stream {name!r}", found=name, allowed=[*streams])
        if metric.streams:
            return tuple(sorted(set(metric.streams))), None
        if metric.is_insight or (metric.name in insights and metric.name not in streams):
            if metric.name not in insights:
                what = f"there is no query {metric.name!r}"
                raise problem(metric.place, what, found=metric.name, allowed=[*insights])
            read = insights[metric.name].expression
            if isinstance(read, Call) and FUNCTIONS[read.function].is_list:
                what = f"the answers of {metric.name!r} are lists, which no query reads"
                raise problem(metric.place, what, found=metric.name)
            return (), metric.name
        if metric.name in streams:
            return (metric.name,), None
        if len(streams) == 1:
            return tuple(streams), None
        what = f"{metric.name!r} is no stream and no query; of several streams a field says whose it is"
        allowed = [*streams, *insights, *(f'"{metric.name}" FROM ({name})' for name in streams)]
        if not streams:
            allowed = ['name = STREAM FROM topic(topic="site/…")']
        raise problem(metric.place, what, found=metric.name, allowed=allowed)
