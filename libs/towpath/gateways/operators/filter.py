"""`filter`: pass on the events that fulfil a condition. Several filters in a row are joined by `and`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from towpath.gateways.operators.operator import Event, Operator, Unfit, register

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    "in": lambda value, allowed: value in allowed,
    "not in": lambda value, allowed: value not in allowed,
}


class FilterParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The condition: `field` `comparison` `value`."""

    field: str
    comparison: Literal[">", ">=", "<", "<=", "==", "!=", "in", "not in"]
    value: float | str | bool | list[float | str | bool]


@register("filter")
class Filter(Operator[FilterParameters]):
    """Passes on the events whose field compares as asked."""

    parameters = FilterParameters

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Return the event if it fulfils the condition."""
        value = event.get(self.set.field)
        if value is None:
            raise Unfit(f"field {self.set.field!r} is missing")
        try:
            passes = COMPARISONS[self.set.comparison](value, self.set.value)
        except TypeError as error:
            raise Unfit(f"field {self.set.field!r} is {value!r}: {error}") from error
        return (event,) if passes else ()
