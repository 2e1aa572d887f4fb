"""`map`: choose, rename and scale the fields of each event, and add constant ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from towpath.gateways.operators.operator import Event, Operator, Unfit, number, register


class MapParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to fields, in the order in which they are made."""

    scale: dict[str, tuple[float, float]] = {}
    """Field → factor and offset: the new value is `value * factor + offset`."""
    rename: dict[str, str] = {}
    """Old name → new name."""
    keep: list[str] | None = None
    """New names of the fields that stay. None: all."""
    constants: dict[str, Any] = {}
    """Fields that each event gets."""


@register("map")
class Map(Operator[MapParameters]):
    """Makes one event of each event."""

    parameters = MapParameters

    def take(self, event: Event, now: float) -> Iterable[Event]:
        """Return the changed event."""
        scaled = {
            field: number(event, field) * factor + offset
            for field, (factor, offset) in self.set.scale.items()
        }
        if missing := [field for field in self.set.rename if field not in event]:
            raise Unfit(f"field {missing[0]!r} is missing")
        renamed = {self.set.rename.get(name, name): value for name, value in (event | scaled).items()}
        if self.set.keep is not None:
            renamed = {name: renamed[name] for name in self.set.keep if name in renamed}
        return (renamed | self.set.constants,)
