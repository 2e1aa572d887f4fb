"""Losses."""

from __future__ import annotations

from collections.abc import Sequence

from towpath.hooks.points import Items
from towpath.lab.faults.registry import PointFault, T, fault


@fault("drop")
class Drop(PointFault):
    """Lets what it hits not pass, without a word. An event that a source drops is lost for its job."""

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """All but the hits."""
        dropped = set(hits)
        return [item for place, item in enumerate(items) if place not in dropped]
