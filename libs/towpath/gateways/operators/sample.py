"""`sample`: pass on every Nth event, or at most one per period."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec

from towpath.gateways.operators.operator import Event, Operator, admit, key_of, register


class SampleParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Either `every`, or `period_s`, or both: then an event must pass both."""

    every: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Pass on the first of each so many events."""
    period_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Pass on at most one event in so many seconds."""
    by: str | None = None
    """Field that keeps sensors apart."""


@register("sample")
class Sample(Operator[SampleParameters]):
    """Thins events out, for each key."""

    parameters = SampleParameters

    def __init__(self, parameters: SampleParameters) -> None:
        super().__init__(parameters)
        self._seen: dict[str, list[float]] = {}
        """Key → events seen since one was passed on, and the time at which that was."""

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Return the event if it is its turn."""
        key = admit(key_of(event, self.set.by), self._seen)
        count, passed_at = self._seen.get(key, [self.set.every, -self.set.period_s])
        early = passed_at <= now < passed_at + self.set.period_s
        if count < self.set.every or early:
            self._seen[key] = [count + 1, passed_at]
            return ()
        self._seen[key] = [1, now]
        return (event,)

    def state(self) -> Any:
        """Return counts and times."""
        return self._seen

    def restore(self, state: Any) -> None:
        """Take the counts and times of a former run."""
        self._seen = {key: [*seen] for key, seen in state.items()}
