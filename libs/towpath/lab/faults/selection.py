"""Picks from a bundle the places where a condition holds, without looking at each where that is possible.

Only for conditions that look at each occurrence for itself: then the order in which parts are looked at
does not matter, and the cheap ones go first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from towpath.lab.faults.evaluation import matcher, test_of
from towpath.lab.faults.expressions import (
    OWN_SITE,
    And,
    Between,
    Comparison,
    Every,
    Expression,
    Literal,
    Not,
    Occurrence,
    Or,
    Path,
    Probability,
    Shared,
    walk,
)
from towpath.lab.faults.operations import COMPARISONS
from towpath.lab.faults.scope import ROOTS, Scope, plain
from towpath.lab.faults.sieve import needed, sifted

Fields = Callable[[int], Mapping[str, Any]]
Columns = Callable[[str], Sequence[Any] | None]


_DENSE = 4
"""A whole column costs less than the fields of every fourth place."""


@dataclass
class Bundle:
    """Several occurrences at once."""

    scope: Scope
    before: int
    """Occurrences before these."""
    size: int
    fields: Fields
    columns: Columns
    _asked: dict[str, Sequence[Any] | None] = field(default_factory=dict)

    def column(self, name: str, places: Sequence[int]) -> Sequence[Any] | None:
        """All values of a field, if there is such a column and it is worth it for these places."""
        if name not in self._asked:
            if len(places) * _DENSE < self.size:
                return None
            self._asked[name] = self.columns(name)
        return self._asked[name]

    def load(self, names: Sequence[str], places: Sequence[int]) -> Fields:
        """How to read the fields of these names at one of the places: from columns if there are all."""
        columns: dict[str, Sequence[Any]] = {}
        for name in names:
            column = self.column(name, places)
            if column is None:
                return self.fields
            columns[name] = column
        return lambda place: {name: column[place] for name, column in columns.items()}


Selector = Callable[[Bundle, Sequence[int]], Sequence[int]]
"""Those of some places, ascending, where a condition holds."""

_ONCE_A_BUNDLE = frozenset({"site", "process"})
"""Names that mean the same at each place of a bundle."""

_OCCURRENCE, _ONCE, _COLUMN, _FIELDS, _JSON = range(5)
"""What it costs to look at a part, ascending."""


def roots_of(node: Expression) -> frozenset[str]:
    """Names that the tree asks for, without what lies inside of them."""
    found: set[str] = set()
    for each, _ in walk(node):
        if isinstance(each, Path):
            found.add(str(each.steps[0]))
        elif isinstance(each, Shared) and each.site == OWN_SITE:
            found.add("site")
    return frozenset(found)


def selector_of(node: Expression, chances: Mapping[int, int]) -> Selector:
    """How to pick the places where the node holds; `chances` as in `test_of`."""
    match node:
        case And(operands):
            return _all_of([selector_of(operand, chances) for operand in sorted(operands, key=_cost)])
        case Or(operands):
            return _any_of([selector_of(operand, chances) for operand in sorted(operands, key=_cost)])
        case Not(operand):
            inner = selector_of(operand, chances)
            return lambda bundle, places: _without(places, inner(bundle, places))
        case Every(n):
            return partial(_every, n)
        case Probability():
            return partial(_picked, chances[id(node)])
        case Comparison() if _cost(node) == _COLUMN:
            return _column(node, chances)
    test = test_of(node, chances)
    if isinstance(node, Between) or _cost(node) == _ONCE:
        return lambda bundle, places: places if places and _looked(test, (), bundle, places[:1]) else []
    names = sorted("payload" if name == "event" else name for name in roots_of(node) - _COUNTED)
    needles = needed(node)
    if needles:
        return lambda bundle, places: _looked(test, names, bundle, _sifted(needles, bundle, places))
    return lambda bundle, places: _looked(test, names, bundle, places)


_COUNTED = frozenset(ROOTS) - {"event"}


def _cost(node: Expression) -> int:
    if isinstance(node, Occurrence):
        return _OCCURRENCE
    if isinstance(node, And | Or | Not):
        return max(map(_cost, node.parts))
    roots = roots_of(node)
    if roots <= _ONCE_A_BUNDLE:
        return _ONCE
    if "event" in roots:
        return _JSON
    match node:
        case Comparison(_, Path(steps=(str(name),)), Literal()) if name not in ROOTS:
            return _COLUMN
    return _FIELDS


def _all_of(selectors: list[Selector]) -> Selector:
    def select(bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
        for selector in selectors:
            if not places:
                return []
            places = selector(bundle, places)
        return places

    return select


def _any_of(selectors: list[Selector]) -> Selector:
    def select(bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
        found: list[int] = []
        for selector in selectors:
            more = selector(bundle, places)
            if more:
                found.extend(more)
                places = _without(places, more)
        return sorted(found)

    return select


def _without(places: Sequence[int], taken: Sequence[int]) -> Sequence[int]:
    if not taken:
        return places
    gone = frozenset(taken)
    return [place for place in places if place not in gone]


def _every(n: int, bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
    hits = range(n - 1 - bundle.before % n, bundle.size, n)
    return hits if len(places) == bundle.size else [place for place in places if place in hits]


def _picked(number: int, bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
    picks = bundle.scope.chances[number].picks(bundle.before, bundle.before + bundle.size)
    hits = [pick - bundle.before - 1 for pick in picks]
    if len(places) == bundle.size:
        return hits
    among = frozenset(places)
    return [place for place in hits if place in among]


def _looked(
    test: Callable[[Scope], bool], names: Sequence[str], bundle: Bundle, places: Sequence[int]
) -> Sequence[int]:
    """Look at one place after the other."""
    scope, load = bundle.scope, bundle.load(names, places) if names else bundle.fields
    first = bundle.before + 1
    found: list[int] = []
    for place in places:
        scope.count = first + place
        scope.enter(partial(load, place))
        if test(scope):
            found.append(place)
    return found


def _sifted(needles: tuple[bytes, ...], bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
    payloads = bundle.column("payload", places)
    return places if payloads is None else sifted(needles, payloads, places)


def _column(node: Comparison, chances: Mapping[int, int]) -> Selector:
    """Compares a whole column with one value, if there is such a column."""
    assert isinstance(node.left, Path)
    assert isinstance(node.right, Literal)
    name, wanted = str(node.left.steps[0]), node.right.value
    test = test_of(node, chances)
    quick = _TEXT_COLUMNS.get(node.operator) if isinstance(wanted, str) else None
    compare = matcher(node) if node.operator == "matches" else partial(_compared, node.operator, wanted)

    def select(bundle: Bundle, places: Sequence[int]) -> Sequence[int]:
        column = bundle.column(name, places)
        if column is None or not places:
            return _looked(test, (), bundle, places)
        if quick is not None and isinstance(wanted, str):
            part = wanted.encode() if isinstance(column[places[0]], bytes) else wanted
            try:
                return quick(column, places, part)
            except (TypeError, AttributeError):
                pass  # Not all of the column is of one kind: each is looked at for itself.
        return [place for place in places if compare(plain(column[place]))]

    return select


def _compared(operator: str, wanted: Any, value: Any) -> bool:
    return COMPARISONS[operator](value, wanted)


def _starting(column: Sequence[Any], places: Sequence[int], part: Any) -> list[int]:
    if len(places) == len(column):
        return [place for place, value in enumerate(column) if value.startswith(part)]
    return [place for place in places if column[place].startswith(part)]


def _ending(column: Sequence[Any], places: Sequence[int], part: Any) -> list[int]:
    if len(places) == len(column):
        return [place for place, value in enumerate(column) if value.endswith(part)]
    return [place for place in places if column[place].endswith(part)]


def _containing(column: Sequence[Any], places: Sequence[int], part: Any) -> list[int]:
    # `find`, as `in` would also look into lists.
    if len(places) == len(column):
        return [place for place, value in enumerate(column) if value.find(part) >= 0]
    return [place for place in places if column[place].find(part) >= 0]


_TEXT_COLUMNS: Mapping[str, Callable[[Sequence[Any], Sequence[int], Any], list[int]]] = {
    "startswith": _starting,
    "endswith": _ending,
    "contains": _containing,
}
