"""Repetitions."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from towpath.contracts.message import Model
from towpath.hooks.points import Items
from towpath.lab.faults.registry import PointFault, T, fault


class DuplicateParameters(Model):
    """The number of repetitions."""

    times: int = Field(default=1, ge=1, le=100)
    """Number of times beyond the first."""


@fault("duplicate", DuplicateParameters)
class Duplicate(PointFault):
    """Lets what it hits pass again, at once, with everything that identifies it."""

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """All items, the hits several times."""
        repeated = set(hits)
        copies = 1 + self.parameters.times
        return [item for place, item in enumerate(items) for _ in range(copies if place in repeated else 1)]
