"""Conditions of fault rules, and values that rules compute, in CEL: compiled once, evaluated often.

`Condition` is a compiled text. `Evaluation` is one loaded rule in one process: it counts, and picks what the
rule acts on. The same seed leads to the same choices.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from numbers import Integral
from typing import Any

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import Rule
from towpath.expressions import compiled, is_bound, place_of
from towpath.lab.faults.chance import Chance
from towpath.lab.faults.clock import real_time
from towpath.lab.faults.vocabulary import CALLABLE, OWN_SITE, SAMPLES, SHARED_FUNCTIONS

SharedValues = Callable[[str], float | None]
"""A shared figure by its key, such as `cpu_percent(jfk)`; null while it is unknown."""

Fields = Callable[[int], Mapping[str, Any]]
"""The fields of an occurrence by its place in a bundle, from 0."""

_FIGURE = re.compile(
    rf"\b({'|'.join(SHARED_FUNCTIONS)})\s*\(\s*(?:\"([^\"]*)\"|'([^']*)'|({OWN_SITE})\b)\s*\)"
)
_ANY_FIGURE = re.compile(rf"\b({'|'.join(SHARED_FUNCTIONS)})\s*\(")


def _nothing_shared(key: str) -> float | None:
    return None


class Expression:
    """A compiled expression. Immutable; threads may share it."""

    def __init__(self, text: str, field: str) -> None:
        self.text = text
        self._program = compiled(text, field)
        self.names = frozenset(name for name in self._program.variables() if not is_bound(name, text))
        """Names that it reads, such as `payload`, `event`, `site`."""
        functions = self._program.functions()
        _check_functions(functions, text, field)
        self.shared = _figures(text, field)
        """Figures that it asks of the mesh: `cpu_percent(jfk)`; `cpu_percent(site)` is each process's own."""
        self._figures = [name for name in SHARED_FUNCTIONS if name in functions]

    def value(
        self,
        fields: Mapping[str, Any],
        shared: SharedValues = _nothing_shared,
        own: Mapping[str, Any] | None = None,
    ) -> Any:
        """Compute the value for these fields, and the rule's `own`.

        Raises `LookupError` where something that it reads is missing; CEL raises other errors for values that
        do not fit.
        """
        own = own or {}
        arguments = {name: own[name] if name in own else argument(name, fields) for name in self.names}
        for name in self._figures:
            arguments[name] = partial(_figure, shared, name)
        try:
            return self._program.execute(arguments)
        except TypeError:
            own_site = arguments.get(OWN_SITE)
            keys = (key.replace(f"({OWN_SITE})", f"({own_site})") for key in self.shared)
            unknown = next((key for key in keys if shared(key) is None), None)
            if unknown is not None:
                raise LookupError(f"{unknown} is not known yet") from None
            raise


class Evaluation:
    """A loaded rule's condition at work in one process. Its owner sees that one thread uses it at a time."""

    def __init__(
        self,
        rule: Rule,
        *,
        loaded_at: float,
        shared: SharedValues = _nothing_shared,
        clock: Callable[[], float] = real_time,
    ) -> None:
        """`loaded_at` is in seconds of `clock`: the true time, whatever a rule makes of `time.time`."""
        self._condition = None if rule.condition.strip() == "true" else compile_condition(rule.condition)
        self._every, self._once = rule.every or 1, rule.once
        self._chance = None if rule.probability is None else Chance(rule.probability, rule.seed)
        self._shared, self._loaded_at, self._clock = shared, loaded_at, clock
        self.looked = self.acted = 0
        """Occurrences seen, and those of them that the rule acted on."""

    @property
    def elapsed_s(self) -> float:
        """Seconds since the rule was loaded."""
        return self._clock() - self._loaded_at

    def resume(self, looked: int, acted: int) -> None:
        """Continue where an earlier evaluation of the same rule stopped."""
        self.looked, self.acted = looked, acted

    def holds(self, fields: Mapping[str, Any]) -> bool:
        """Return true if the rule acts on the next occurrence. Raises what goes wrong with the condition."""
        return bool(self.select(1, lambda place: fields, _raise))

    def select(self, size: int, fields: Fields, failed: Callable[[Exception], None]) -> list[int]:
        """Return the places, ascending from 0, that the rule acts on among the next `size` occurrences.

        `every` decides first, then `probability`, then the condition, then `once`: most events cost nothing.
        `failed` is told of each occurrence for which the condition could not be computed.
        """
        before = self.looked
        self.looked += size
        hits: list[int] = []
        for number in self._candidates(before, self.looked):
            if self._once and self.acted:
                break
            place = number - before - 1
            try:
                held = self._condition is None or self._true(self._condition, number, fields(place))
            except Exception as error:
                failed(error)
                continue
            if held:
                hits.append(place)
                self.acted += 1
        return hits

    def _candidates(self, after: int, through: int) -> Iterable[int]:
        """Numbers of the occurrences that `every` and `probability` leave."""
        first, last = after // self._every, through // self._every
        picks = range(first + 1, last + 1) if self._chance is None else self._chance.picks(first, last)
        return (pick * self._every for pick in picks)

    def _true(self, condition: Expression, number: int, fields: Mapping[str, Any]) -> bool:
        own = {"count": number, "acted": self.acted, "elapsed_s": self.elapsed_s}
        try:
            held = condition.value(fields, self._shared, own)
        except LookupError:
            return False  # The event has no such field.
        if not isinstance(held, bool):
            raise TypeError(f"the condition is {held!r}, neither true nor false")
        return held


@lru_cache(maxsize=256)
def compile_condition(text: str, field: str = "condition") -> Expression:
    """Compile a condition. Raises `TowpathError` (invalid) that names the place and what is allowed."""
    condition = Expression(text, field)
    value = _tried(condition, field)
    if not isinstance(value, bool):
        raise _wrong(
            f"is a value ({value!r}), not a condition", text, field, "a comparison, such as count > 3"
        )
    return condition


@lru_cache(maxsize=256)
def compile_value(text: str, field: str = "value") -> Expression:
    """Compile a value. Raises `TowpathError` (invalid) that names the place and what is allowed."""
    value = Expression(text, field)
    _tried(value, field)
    return value


def argument(name: str, fields: Mapping[str, Any]) -> Any:
    """Return what a name stands for, as CEL takes it; null where there is no such field."""
    try:
        value = fields["payload" if name == "event" else name]
    except KeyError:
        value = None
    if name == "event":
        return _event(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode(errors="replace")
    if isinstance(value, str | int | float | None):
        return value
    return int(value) if isinstance(value, Integral) else str(value)


def _event(payload: Any) -> dict[str, Any]:
    try:
        content = json.loads(payload or b"")
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def scope_of_figure(key: str) -> str:
    """Return the scope that a figure such as `cpu_percent(jfk)` is about."""
    return key.partition("(")[2].removesuffix(")")


def _figure(shared: SharedValues, function: str, scope: Any) -> float | None:
    return shared(f"{function}({scope})")


def _raise(error: Exception) -> None:
    raise error


def _check_functions(functions: Iterable[str], text: str, field: str) -> None:
    for name in functions:
        if name[0].isalpha() and name not in CALLABLE:  # CEL calls its operators `_>_`, `@in` and the like.
            what = f"{place_of(name, text)}: there is no function `{name}`"
            raise TowpathError(ErrorCode.INVALID, what, field=field, value=name, allowed=sorted(CALLABLE))


def _figures(text: str, field: str) -> frozenset[str]:
    found = [*_FIGURE.finditer(text)]
    for call in _ANY_FIGURE.finditer(text):
        if not any(each.start() == call.start() for each in found):
            what = f"{place_of(call[1], text)}: `{call[1]}` takes the name of a scope"
            allowed = f'a name in quotes, such as {call[1]}("jfk"), or {OWN_SITE}'
            raise TowpathError(ErrorCode.INVALID, what, field=field, value=text, allowed=allowed)
    return frozenset(f"{each[1]}({each[2] or each[3] or each[4] or ''})" for each in found)


def _tried(expression: Expression, field: str) -> Any:
    """Return its value for samples; true where events decide that."""
    samples = {name: SAMPLES.get(name) for name in expression.names}
    try:
        return expression.value({}, lambda key: 0.0, samples)
    except (TypeError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "regex" not in str(error):
            return True  # A sample that cannot be converted, such as a text that says no number.
        if not expression.names <= SAMPLES.keys():
            return True  # The check of names refuses it.
        raise _wrong(f"cannot be computed: {error}", expression.text, field, "values of one type") from error
    except (LookupError, ArithmeticError, ValueError):
        return True


def _wrong(what: str, text: str, field: str, allowed: str) -> TowpathError:
    return TowpathError(ErrorCode.INVALID, f"`{text}` {what}", field=field, value=text, allowed=allowed)
