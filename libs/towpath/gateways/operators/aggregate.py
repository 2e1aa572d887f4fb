"""`aggregate`, also called `average`: one result per key and time window.

A window begins with its first event and ends after `seconds` of the gateway's clock: the thesis's publish
rate (section 3.6). A change of `seconds` counts for the open window, too. Results are a function of arrival
times, so they are not the same in a repetition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal

import msgspec

from towpath.gateways.operators.operator import Event, Operator, admit, key_of, number, register

FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "mean": lambda kept: kept[1] / kept[0],
    "sum": lambda kept: kept[1],
    "min": lambda kept: kept[2],
    "max": lambda kept: kept[3],
}
"""Name → function of count, sum, minimum and maximum."""


class AggregateParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The window, and what is computed over it."""

    field: str
    seconds: Annotated[float, msgspec.Meta(gt=0)]
    """Length of the window."""
    functions: Annotated[list[Literal["mean", "sum", "min", "max"]], msgspec.Meta(min_length=1)] = (
        msgspec.field(default_factory=lambda: ["mean"])
    )
    """A result has a field `<field>_<function>` for each."""
    by: str | None = None
    """Field that keeps sensors apart."""


@register("aggregate", "average")
class Aggregate(Operator[AggregateParameters]):
    """Aggregates a field's numbers over a window of arrival time, for each key."""

    parameters = AggregateParameters

    def __init__(self, parameters: AggregateParameters) -> None:
        super().__init__(parameters)
        self._start: float | None = None
        """Start of the open window; None if there is none."""
        self._kept: dict[str, list[float]] = {}
        """Key → count, sum, minimum and maximum."""
        self._values: dict[str, Any] = {}
        """Key → the value of which it is the text."""

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Add the event to the window, after closing the one before if its time is over."""
        value = number(event, self.set.field)
        key = admit(key_of(event, self.set.by), self._kept)
        closed = self.tick(now)
        if self._start is None or now < self._start:  # Or the clock was set back.
            self._start = now
        if self.set.by is not None:
            self._values[key] = event[self.set.by]
        count, total, least, greatest = self._kept.get(key, [0, 0.0, value, value])
        self._kept[key] = [count + 1, total + value, min(least, value), max(greatest, value)]
        return closed

    def next_due(self) -> float | None:
        """Return the end of the open window."""
        return None if self._start is None else self._start + self.set.seconds

    def tick(self, now: float) -> list[Event]:
        """Close the window if its time is over."""
        due = self.next_due()
        if due is None or now < due:
            return []
        results = [self._result(key, kept, due) for key, kept in self._kept.items()]
        self._start, self._kept, self._values = None, {}, {}
        return results

    def _result(self, key: str, kept: list[float], end: float) -> Event:
        by = {} if self.set.by is None else {self.set.by: self._values.get(key, key)}
        values = {f"{self.set.field}_{name}": FUNCTIONS[name](kept) for name in self.set.functions}
        return by | values | {"count": int(kept[0]), "window_start": self._start, "window_end": end}

    def state(self) -> Any:
        """Return the open window."""
        return [self._start, self._kept, self._values]

    def restore(self, state: Any) -> None:
        """Take the window that a former run had open."""
        self._start, kept, *more = state  # An earlier version kept no values.
        self._values = dict(*more)
        self._kept = {key: [*values] for key, values in kept.items()}
