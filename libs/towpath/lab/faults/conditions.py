"""Conditions of fault rules, and values that rules compute: compiled once, looked at often.

`Condition` is what the text says. `Evaluation` is one loaded rule's condition in one process: it counts,
and holds what chance has decided. The same seed leads to the same choices.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.lab.faults.chance import Chance
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.description import described
from towpath.lab.faults.evaluation import TESTS, test_of, value_of
from towpath.lab.faults.expressions import (
    And,
    Between,
    Called,
    Expression,
    First,
    Literal,
    Not,
    Occurrence,
    Or,
    Path,
    Probability,
    Shared,
    printed,
    walk,
)
from towpath.lab.faults.parsing import parsed
from towpath.lab.faults.scope import IMPURE, Counters, Scope, SharedValues
from towpath.lab.faults.selection import Bundle, Columns, Fields, roots_of, selector_of
from towpath.lab.faults.vocabulary import COUNTER, FUNCTIONS

__all__ = [
    "FUNCTIONS",
    "Condition",
    "Counters",
    "Evaluation",
    "Value",
    "compile_condition",
    "compile_value",
]


def _nothing_shared(key: str) -> float | None:
    return None


def _no_columns(name: str) -> Sequence[Any] | None:
    return None


class _Compiled:
    """A text that was read."""

    def __init__(self, text: str, tree: Expression) -> None:
        self.text = text
        self.tree = tree

    @cached_property
    def names(self) -> frozenset[str]:
        """What it names of what passes, such as `payload`, `event`, `args`, `site`."""
        return roots_of(self.tree)

    @cached_property
    def paths(self) -> frozenset[tuple[str | int, ...]]:
        """What it names, with what lies inside: `("args", "command", "job")`."""
        return frozenset(node.steps for node, _ in walk(self.tree) if isinstance(node, Path))

    @cached_property
    def shared(self) -> frozenset[str]:
        """What it asks of the mesh: `cpu_percent(jfk)`; in `cpu_percent(site)` each process's own scope."""
        nodes = (node for node, _ in walk(self.tree))
        return frozenset(f"{node.function}({node.site})" for node in nodes if isinstance(node, Shared))


class Condition(_Compiled):
    """A condition that was read and can be started. Immutable."""

    def __init__(self, text: str, tree: Expression) -> None:
        super().__init__(text, tree)
        nodes = [node for node, _ in walk(tree)]
        self._probabilities = [node for node in nodes if isinstance(node, Probability)]
        numbers = {id(node): number for number, node in enumerate(self._probabilities)}
        self._timed = any(isinstance(node, Between) for node in nodes)
        self._test = test_of(tree, numbers)
        # A row of places is picked at once where no occurrence changes what the next one sees. That of
        # `first` is easy to foresee where all else has to hold as well.
        rest, self._most = _without_first(tree)
        counted = any(isinstance(node, First) for node, _ in walk(rest))
        impure = any(isinstance(node, Called) and node.function in IMPURE for node in nodes)
        self._selector = None if counted or impure or self.names & IMPURE else selector_of(rest, numbers)

    def start(
        self,
        *,
        seed: int,
        loaded_at: float,
        shared: SharedValues = _nothing_shared,
        counters: Counters | None = None,
        clock: Callable[[], float] = real_time,
    ) -> Evaluation:
        """Begin to look. `loaded_at` is in seconds of `clock`; `counters` null: the rule has its own.

        The clock is the true one, whatever a rule makes of the process's `time.time` later.
        """
        chances = (Chance(node.p, seed, number) for number, node in enumerate(self._probabilities))
        scope = Scope(shared=shared, counters=counters, chances=tuple(chances))
        return Evaluation(self, scope, loaded_at, clock)

    def describe(self) -> str:
        """What it says, as the part of a sentence that follows "if"."""
        return described(self.tree)


class Evaluation:
    """A condition at work: of one rule, in one process. Threads may share it."""

    def __init__(
        self, condition: Condition, scope: Scope, loaded_at: float, clock: Callable[[], float]
    ) -> None:
        self._test, self._selector = condition._test, condition._selector
        self._most, self._timed = condition._most, condition._timed
        self._scope, self._loaded_at, self._clock = scope, loaded_at, clock
        # Whoever gives the fields may run into the same rule again.
        self._lock = threading.RLock()

    @property
    def looked(self) -> int:
        """How many occurrences it has seen."""
        return self._scope.count

    @property
    def acted(self) -> int:
        """For how many of them it held."""
        return self._scope.acted

    def resume(self, looked: int, acted: int) -> None:
        """Go on where an earlier evaluation of the same rule has come to: for one that takes its place."""
        with self._lock:
            self._scope.count, self._scope.acted = looked, acted

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Whether it holds for the next occurrence, which has these fields."""
        with self._lock:
            self._look_at_the_clock()
            return self._one(lambda: fields)

    def select(self, count: int, fields: Fields, columns: Columns = _no_columns) -> list[int]:
        """Where it holds among the next `count` occurrences: places from 0, ascending.

        `fields` gives the fields at a place, and is only asked where that matters. `columns` may give one
        field of all places at once, such as all payloads, or null; that is quicker.
        """
        if count <= 0:
            return []
        with self._lock:
            before = self._scope.count
            try:
                self._look_at_the_clock()
                if self._selector is not None:
                    return self._at_once(Bundle(self._scope, before, count, fields, columns))
                return [place for place in range(count) if self._one(lambda: fields(place))]  # noqa: B023
            finally:
                self._scope.count = before + count

    def _look_at_the_clock(self) -> None:
        if self._timed:
            self._scope.elapsed = self._clock() - self._loaded_at

    def _one(self, load: Callable[[], Mapping[str, Any]]) -> bool:
        scope = self._scope
        scope.count += 1
        scope.enter(load)
        held = self._test(scope)
        scope.acted += held
        return held

    def _at_once(self, bundle: Bundle) -> list[int]:
        left = bundle.size if self._most is None else self._most - self._scope.acted
        if left <= 0 or self._selector is None:
            return []
        hits = list(self._selector(bundle, range(bundle.size))[:left])
        self._scope.acted += len(hits)
        return hits


class Value(_Compiled):
    """A value that was read and can be computed. Immutable; threads may share it."""

    def __init__(self, text: str, tree: Expression) -> None:
        super().__init__(text, tree)
        self._value = value_of(tree, {})

    def __call__(self, fields: Mapping[str, Any], shared: SharedValues = _nothing_shared) -> Any:
        """The value where something has these fields. `count` and `acted` are fields here."""
        scope = Scope(shared=shared)
        scope.count, scope.acted = fields.get("count", 0), fields.get("acted", 0)
        scope.enter(lambda: fields)
        return self._value(scope)


@lru_cache(maxsize=256)
def compile_condition(text: str, field: str = "condition") -> Condition:
    """Read a condition. Raises `TowpathError` (invalid) that names the place and what may stand there."""
    tree = parsed(text, field)
    _check_condition(tree, text, field)
    return _built(Condition, text, tree, field)


@lru_cache(maxsize=256)
def compile_value(text: str, field: str = "value") -> Value:
    """Read a value. Raises `TowpathError` (invalid) that names the place and what may stand there."""
    tree = parsed(text, field)
    _check_value(tree, text, field)
    if any(isinstance(node, Called) and node.function == COUNTER for node, _ in walk(tree)):
        raise _misplaced(f"{COUNTER}()", "counts in conditions only", text, field, "values without it")
    return _built(Value, text, tree, field)


def _built(kind: Any, text: str, tree: Expression, field: str) -> Any:
    try:
        return kind(text, tree)
    except TowpathError as error:  # A regular expression is only read now.
        detail = error.detail
        message = f"{detail.message}: {detail.value!r}"
        raise TowpathError(detail.code, message, field=field, value=text, allowed=detail.allowed) from None


def _without_first(tree: Expression) -> tuple[Expression, int | None]:
    """The tree without the `first` that all else is joined to, and how often the rule may act at most."""
    if isinstance(tree, First):
        return Literal(True), tree.n
    if isinstance(tree, And):
        bounds = [operand.n for operand in tree.operands if isinstance(operand, First)]
        rest = tuple(operand for operand in tree.operands if not isinstance(operand, First))
        if bounds:
            return And(rest) if rest else Literal(True), min(bounds)
    return tree, None


def _check_condition(node: Expression, text: str, field: str, negated: bool = False) -> None:
    if isinstance(node, First) and negated:
        what = "never holds when negated: the rule would have to act first"
        raise _misplaced(printed(node), what, text, field, f"count > {node.n}")
    if isinstance(node, And | Or | Not):
        for part in node.parts:
            _check_condition(part, text, field, negated or isinstance(node, Not))
        return
    truth = isinstance(node, Literal) and isinstance(node.value, bool)
    if not isinstance(node, (Path, *TESTS)) and not truth:
        what = "is a value, not a condition"
        raise _misplaced(printed(node), what, text, field, f"a comparison, such as {printed(node)} == 0")
    for part in node.parts:
        _check_value(part, text, field)


def _check_value(node: Expression, text: str, field: str) -> None:
    for part, _ in walk(node):
        if isinstance(part, Occurrence):
            raise _misplaced(printed(part), "is a condition, not a value", text, field, "values")


def _misplaced(part: str, what: str, text: str, field: str, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, f"`{part}` {what}", field=field, value=text, allowed=allowed)
