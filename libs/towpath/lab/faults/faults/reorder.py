"""Changes of order."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from towpath.contracts.message import Model
from towpath.hooks.points import Items
from towpath.lab.faults.registry import PointFault, T, fault


class ReorderParameters(Model):
    """The distance."""

    window: int = Field(default=10, ge=1, le=10_000)
    """Number of others that pass before a hit, at most; each hit behind at least one, if there is one."""


@fault("reorder", ReorderParameters)
class Reorder(PointFault):
    """Lets what it hits pass later, behind others of the same bundle. What passes alone stays where it is."""

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """The same items, the hits moved back."""
        late = {place: place + self.random.randint(1, self.parameters.window) for place in hits}
        # Behind the item it is to pass, before the next one: halves are between places.
        order = sorted(range(len(items)), key=lambda place: late[place] + 0.5 if place in late else place)
        return [items[place] for place in order]
