"""Join a query text to one that runs, and take a query out again.

The joined text is both texts, one after the other. What the running one has already is left out, and a field
that no longer says by itself whose it is gets its stream: `delay` becomes `delay FROM (departures)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.queries.checking import check, check_names, query_of
from towpath.queries.compilation import Asked, Compiled, compiled
from towpath.queries.meaning import QuerySet
from towpath.queries.parsing import parse, place_at
from towpath.queries.problems import QueryTextError, problem
from towpath.queries.providers import declared, placeholders
from towpath.queries.scope import Scope
from towpath.queries.statements import Edit, cut, edited, position_before, position_of, spans
from towpath.queries.tree import Filtered, Insight, Metric, Place, QueryText, Stream, metrics_in, parts_of


@dataclass(frozen=True)
class Joined:
    """A running text with another one."""

    compiled: Compiled
    added: tuple[str, ...]
    """The queries that the running text did not have."""


def joined(running: Asked, more: Asked) -> Joined:
    """Return the plan of a running text together with `more`.

    A webhook, or seconds between micro-batches, that `more` has take the place of the running text's. Raises
    `TowpathError` with the place in the text of `more`.
    """
    _check_site(running, more)
    old, new = parse(running.text), parse(more.text)
    check_names(new)
    filled = _filled(running, more)
    _check_fields(old, new)
    both = _both(running.text, old, more.text, new, filled)
    asked = replace(
        running,
        text=both.text,
        filled=filled,
        trigger_s=running.trigger_s if more.trigger_s is None else more.trigger_s,
        webhook=more.webhook or running.webhook,
    )
    try:
        found = compiled(asked)
    except QueryTextError as error:
        place = both.place_in(more.text, error.place)
        raise _in_running(error) if place is None else _at(error, place) from error
    _check_types(running, found, new)
    return Joined(found, tuple(one.name for one in new.insights if one.name not in both.known))


@dataclass(frozen=True)
class _Both:
    """Two texts, one after the other."""

    text: str
    begins: int
    """Characters before the second text, less the blanks at its beginning, which are left out."""
    edits: Sequence[Edit]
    """Those of the second text."""
    known: Sequence[str]
    """Statements of the second text that the first one has."""

    def place_in(self, second: str, place: Place) -> Place | None:
        """Return where a place was in the second text; None if it is in the first one."""
        position = position_of(self.text, place) - self.begins
        return None if position < 0 else place_at(second, position_before(position, self.edits))


def _both(running: str, old: QueryText, more: str, new: QueryText, filled: Mapping[str, str]) -> _Both:
    several = len({one.name for one in (*old.streams, *new.streams)}) > 1
    named = _naming_streams(more, new, several=several)
    before = edited(running, _naming_streams(running, old, several=several))
    known = _known(parse(before), parse(edited(more, named)), filled, new)
    if len(known) == len(new.statements):
        return _Both(running, len(running), (), known)
    where = spans(more)
    cuts = [cut(more, where[name]) for name in known]
    kept = [one for one in named if not any(each.start <= one.start < each.end for each in cuts)]
    end = edited(more, [*cuts, *kept])
    begin = f"{before.rstrip()}\n\n"
    blanks = len(end) - len(end.lstrip())
    return _Both(f"{begin}{end.strip()}\n", len(begin) - blanks, [*cuts, *kept], known)


def without_query(running: Asked, query: str) -> Asked:
    """Return a running text without a query, and without the streams that only this one reads.

    Raises `TowpathError` if there is no such query, if another one needs it, or if it is the last.
    """
    meaning = check(parse(running.text), running.filled)
    _check_removable(running, meaning, query)
    where = spans(running.text)
    gone = [query, *_read_only_by(meaning, query)]
    text = edited(running.text, [cut(running.text, where[name], with_comments=True) for name in gone])
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    filled = {name: running.filled[name] for name in placeholders(text) if name in running.filled}
    for name, kind in check(parse(text), filled).types.items():
        if meaning.types[name] != kind:
            what = f"only {query!r} shows that {name!r} is of type {meaning.types[name]}"
            raise _kept(query, what, f'its type in a stream: fields="{name}:{meaning.types[name]}"')
    return replace(running, text=text, filled=filled)


def _check_removable(running: Asked, meaning: QuerySet, query: str) -> None:
    names = [one.name for one in meaning.queries]
    if query not in names:
        what = f"{running.name!r} has no query {query!r}"
        raise TowpathError(ErrorCode.INVALID, what, field="query", value=query, allowed=names)
    readers = ", ".join(one.name for one in meaning.queries if query in one.reads_answers_of)
    if readers:
        raise _kept(query, f"{readers} read(s) the answers of {query!r}", f"remove {readers} first")
    if len(names) == 1:
        what = f"{query!r} is the last query of {running.name!r}"
        raise _kept(query, what, f"the whole text: towpath query remove {running.name}")


def _kept(query: str, why: str, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.NOT_ALLOWED, why, field="query", value=query, allowed=allowed)


def _read_only_by(meaning: QuerySet, query: str) -> list[str]:
    """Return the streams that no other query reads.

    The numbers of panes are called by the first name of a stream. So one that has another name, too, counts
    as read under both: the state of its panes stays.
    """
    first = meaning.first_names

    def read(*, by_it: bool) -> set[str]:
        arguments = [
            each for one in meaning.queries if (one.name == query) == by_it for each in one.arguments
        ]
        names = {name for argument in arguments for name in argument.streams}
        return names | {first[name] for name in names}

    return sorted(read(by_it=True) - read(by_it=False))


def _check_site(running: Asked, more: Asked) -> None:
    if more.site != running.site:
        what = (
            f"the answers of {running.name!r} are at {running.site}, and so are those of a text that joins it"
        )
        raise TowpathError(ErrorCode.NOT_ALLOWED, what, field="at", value=more.site, allowed=[running.site])


def _filled(running: Asked, more: Asked) -> dict[str, str]:
    """Return what stands for the placeholders of both texts. What was filled in stays."""
    for name, text in more.filled.items():
        known = running.filled.get(name, text)
        if known != text:
            what = f"{{{name}}} is {known!r} in the running text"
            place = place_at(more.text, max(more.text.find(f"{{{name}}}"), 0))
            raise problem(place, what, found=text, allowed=f"{known!r}, or another name for the placeholder")
    return {**more.filled, **running.filled}


def _check_fields(old: QueryText, new: QueryText) -> None:
    """Raise `TowpathError` if a field of one text would become a statement of the other."""
    fields = {metric.name for metric, _ in _fields(old)}
    for one in new.statements:
        if one.name in fields:
            what = f"{one.name!r} is a field in the running text, and would hide it"
            raise problem(one.place, what, found=one.name, allowed="another name: rename it")
    running = old.names
    for metric, is_condition in _fields(new):
        # Where it cannot be a field, it is meant as what the running text has.
        if metric.name in running and (is_condition or len(new.streams) == 1):
            what = f"{metric.name!r} is a field here, and also a statement of the running text"
            allowed = [f"INSIGHT {metric.name}", f'"field" FROM ({metric.name})', "another field"]
            raise problem(metric.place, what, found=metric.name, allowed=allowed)


def _naming_streams(text: str, tree: QueryText, *, several: bool) -> list[Edit]:
    """Return the edits that name the only stream of a text where it will no longer be the only one."""
    if not several or len(tree.streams) != 1:
        return []
    stream = f" FROM ({tree.streams[0].name})"
    ends = [
        position_of(text, metric.place) + len(metric.name) + 2 * metric.is_quoted
        for metric, is_condition in _fields(tree)
        if not is_condition
    ]
    return [Edit(end, end, stream) for end in ends]


def _fields(text: QueryText) -> Iterator[tuple[Metric, bool]]:
    """Return each field that stands without a stream, and true if it is in a condition on events.

    There it belongs to the events that the function sees.
    """
    names = text.names
    for whole in (part for one in text.insights for part in (one.expression, one.when)):
        filters = [part.where for part in parts_of(whole) if isinstance(part, Filtered)]
        conditional = {metric.place for where in filters for metric in metrics_in(where)}
        for metric in metrics_in(whole):
            if not metric.streams and not metric.is_insight and metric.name not in names:
                yield metric, metric.place in conditional


def _known(old: QueryText, new: QueryText, filled: Mapping[str, str], places: QueryText) -> list[str]:
    """Return the statements of a text that the running one has. Raises `TowpathError` for other ones."""
    before, after = ({one.name: one for one in text.statements} for text in (old, new))
    at = {one.name: one.place for one in places.statements}
    streams = {one.name: declared(one, filled) for one in (*new.streams, *old.streams)}
    scope = Scope(streams, {one.name: one for one in (*new.insights, *old.insights)})
    known = [name for name in after if name in before]
    for name in known:
        if not _is_same(before[name], after[name], filled, scope):
            what = f"the running text has another {name!r}, in line {before[name].place.line}"
            raise problem(at[name], what, found=name, allowed="another name: rename it, or what is there")
    return known


def _is_same(one: Stream | Insight, other: Stream | Insight, filled: Mapping[str, str], scope: Scope) -> bool:
    """Return true if two statements mean the same, however they are written."""
    if isinstance(one, Stream) and isinstance(other, Stream):
        return declared(one, filled) == declared(other, filled)
    if isinstance(one, Stream) or isinstance(other, Stream):
        return False
    try:
        return query_of(one, scope) == query_of(other, scope)
    except QueryTextError:
        return False  # The running one has a meaning.


def _check_types(running: Asked, found: Compiled, new: QueryText) -> None:
    """Raise `TowpathError` if a new text gives a field another type, for which events would be rejected."""
    for name, kind in check(parse(running.text), running.filled).types.items():
        if found.meaning.types[name] != kind:
            used = [metric.place for one in new.insights for metric in _metrics(one) if metric.name == name]
            what = f"{name!r} is of type {kind} in the running text, and here it would be another one"
            place = used[0] if used else new.statements[0].place
            raise problem(place, what, found=name, allowed=f"a use of {name!r} as {kind}")


def _metrics(insight: Insight) -> Iterator[Metric]:
    yield from metrics_in(insight.expression)
    yield from metrics_in(insight.when)


def _at(error: QueryTextError, place: Place) -> QueryTextError:
    detail = error.detail
    return problem(place, detail.message, found=detail.value, allowed=detail.allowed or ())


def _in_running(error: QueryTextError) -> TowpathError:
    """Return an error that names a place in the running text."""
    detail = error.detail.model_copy(update={"field": f"running text, {error.detail.field}"})
    return TowpathError.of(detail)
