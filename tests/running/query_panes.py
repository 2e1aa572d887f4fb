"""Evaluate queries as a job does, without Spark: panes of a history, in micro-batches, with restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from towpath.queries.checking import check
from towpath.queries.evaluation.expressions import holds, value_of
from towpath.queries.evaluation.group import Group, GroupAnswer
from towpath.queries.evaluation.history import Entry, Pane
from towpath.queries.evaluation.totals import Totals
from towpath.queries.meaning import QuerySet
from towpath.queries.parsing import parse
from towpath.queries.planning import SharedPlan, shared_plan
from towpath.queries.program import Part, QueryProgram
from towpath.queries.reference import Answer, Event, _belonging, _grouped, _sample, _Seen
from towpath.queries.sharing import SharedKeys, shared_keys
from towpath.queries.tree import Argument, Expression, Grouping, Metric

ALL_COUNT = 60_000_000
"""A delay that covers the disorder of histories, in microseconds."""

Place = tuple[str, str]


def meaning_of(text: str) -> QuerySet:
    """Return what a text means, with a delay that no event exceeds."""
    asked = check(parse(text))
    sources = {name: replace(one, delay_micros=ALL_COUNT) for name, one in asked.sources.items()}
    return replace(asked, sources=sources)


def evaluated(asked: QuerySet, events: Sequence[Event], until: int, seed: int) -> list[Answer]:
    """Return all answers up to a moment, of panes that come in micro-batches chosen by a seed."""
    random = Random(seed)
    places = sorted({(event.site, event.topic) for event in events})
    plan = shared_plan(asked, dict.fromkeys(asked.sources, (0,)), [site for site, _ in places])
    panes = _panes(asked, plan, events, places)
    random.shuffle(panes)
    told: list[GroupAnswer] = []
    states: dict[tuple[str, ...], bytes] = {}
    moments: dict[tuple[str, ...], int | None] = {}
    before = min((pane.end for pane in panes), default=until) - 1
    waiting = [(pane.end - lead, pane) for pane, lead in zip(panes, _leads(seed), strict=False)]
    for watermark in _watermarks(random, before, until):
        came = [pane for begin, pane in waiting if begin <= watermark]
        waiting = [(begin, pane) for begin, pane in waiting if begin > watermark]
        for shared in shared_keys(plan.program):
            by_key = _by_key(shared, came)
            due = [
                group
                for group, moment in moments.items()
                if group[0] == shared.name and moment and moment <= watermark
            ]
            for group in sorted({*((shared.name, *key) for key in by_key), *due}):
                running = Group(shared.program, states.get(group))
                running.take(by_key.get(group[1:], []))
                told += running.answers(watermark)
                states[group], moments[group] = running.state, running.next_moment()
    return [_answer(one, plan.program.queries) for one in _ordered(told, plan.program.queries)]


def _leads(seed: int) -> Iterator[int]:
    """Return how long before time is past them panes come: a site may be ahead of the slowest one."""
    random = Random(seed + 1)
    while True:
        yield random.choice([0, 0, 2_000_000, 15_000_000])


def _watermarks(random: Random, begin: int, until: int) -> Iterator[int]:
    at = begin
    while at < until:
        at = min(at + random.choice([1, 400_000, 3_000_000, 20_000_000]) + random.randrange(1_000_000), until)
        yield at


def _by_key(shared: SharedKeys, panes: Sequence[Pane]) -> Mapping[tuple[str, ...], list[Pane]]:
    found: dict[tuple[str, ...], list[Pane]] = {}
    for pane in panes:
        key = tuple(pane.keys[name] for name in shared.keys)
        if all(key):
            found.setdefault(key, []).append(pane)
    return found


def _panes(asked: QuerySet, plan: SharedPlan, events: Sequence[Event], places: Sequence[Place]) -> list[Pane]:
    groupings: dict[str, Grouping] = {}
    for program, query in zip(plan.program.queries, asked.queries, strict=True):
        if any(argument.insight is None for argument in query.arguments):
            for key, grouping in zip(program.by, query.by, strict=True):
                groupings.setdefault(key.column, grouping)
    values: dict[str, tuple[Argument, float | None]] = {}
    for program in plan.program.queries:
        for argument, column in program.columns.items():
            if argument.insight is None:
                values[column] = argument, program.options.sample
    kept = [(one.argument, one.part) for one in plan.kept]
    panes: dict[tuple[Any, ...], Pane] = {}
    for seen in _belonging(asked, events):
        keys = {name: _text(groupings[name], seen) if name in groupings else "" for name in plan.keys}
        end = (seen.time // plan.program.pane_micros + 1) * plan.program.pane_micros
        pane = panes.setdefault((end, *keys.values()), Pane(end, keys, (0, 0), {}, {}))
        _, _, site, topic, serial = seen.order
        for column, (argument, sample) in values.items():
            value = _value(argument, seen) if [*_sample([seen], sample)] else None
            if value is None:
                continue
            if any(one == column and part is not Part.SERIES for one, part in kept):
                pane.totals.setdefault(column, Totals()).see(value)  # type: ignore[attr-defined]
            if (column, Part.SERIES) in kept:
                entry: Entry = (seen.time, places.index((site, topic)), serial, value)
                pane.series.setdefault(column, []).append(entry)  # type: ignore[attr-defined]
    for pane in panes.values():
        for totals in pane.totals.values():
            totals.spread = (totals.variance() or 0.0) * (totals.count - 1)
            totals.squares.clear()
    return [*panes.values()]


def _text(grouping: Grouping, seen: _Seen) -> str:
    value = _grouped(grouping, seen)
    return "" if value is None else f"={value}"


def _value(argument: Argument, seen: _Seen) -> Any:
    if not seen.streams & {*argument.streams}:
        return None

    def field(metric: Expression) -> Any:
        assert isinstance(metric, Metric)
        return seen.fields.get(metric.name)

    value = value_of(argument.value, field)
    return value if argument.where is None or holds(argument.where, field, value) else None


def _ordered(told: Sequence[GroupAnswer], queries: Sequence[QueryProgram]) -> list[GroupAnswer]:
    order = {query.name: at for at, query in enumerate(queries)}
    return sorted(told, key=lambda one: (order[one.query], one.at, one.key, one.number))


def _answer(one: GroupAnswer, queries: Sequence[QueryProgram]) -> Answer:
    query = next(query for query in queries if query.name == one.query)
    types = {"double": float, "long": lambda text: float(text)}
    key = tuple(
        (each.name, types.get(each.type, str)(text[1:])) for each, text in zip(query.by, one.key, strict=True)
    )
    return Answer(one.query, one.at, key, one.value)
