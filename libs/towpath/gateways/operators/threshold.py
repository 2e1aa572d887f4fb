"""`threshold`: pass on an event only if its value differs enough from the last one passed on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from towpath.gateways.operators.operator import Event, Operator, admit, key_of, number, register


class ThresholdParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The smallest change that counts."""

    field: str
    change: Annotated[float, msgspec.Meta(ge=0)]
    by: str | None = None
    """Field that keeps sensors apart."""


@register("threshold")
class Threshold(Operator[ThresholdParameters]):
    """Passes on changes beyond a threshold, for each key, and the first value."""

    parameters = ThresholdParameters

    def __init__(self, parameters: ThresholdParameters) -> None:
        super().__init__(parameters)
        self._last: dict[str, float] = {}

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Return the event if its value changed enough."""
        value = number(event, self.set.field)
        key = admit(key_of(event, self.set.by), self._last)
        if key in self._last and abs(value - self._last[key]) <= self.set.change:
            return ()
        self._last[key] = value
        return (event,)

    def state(self) -> Any:
        """Return the values passed on last."""
        return self._last

    def restore(self, state: Any) -> None:
        """Take the values that a former run passed on last."""
        self._last = dict(state)
