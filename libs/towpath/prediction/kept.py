"""State that outlives a micro-batch, as plain values: numbers, texts, bytes and lists of them."""

from __future__ import annotations

from typing import Any, ClassVar


class Kept:
    """The base of objects that keep some of their attributes between micro-batches."""

    KEPT: ClassVar[tuple[str, ...]] = ()
    """Names of these attributes. A new one goes to the end: older state then leaves it as it is."""

    def saved(self) -> list[Any]:
        """Return the state, in the order of `KEPT`."""
        values = (getattr(self, name) for name in self.KEPT)
        return [value.saved() if isinstance(value, Kept) else value for value in values]

    def restore(self, saved: list[Any]) -> None:
        """Take over what an object of this class saved."""
        for name, value in zip(self.KEPT, saved, strict=False):
            own = getattr(self, name)
            if isinstance(own, Kept):
                own.restore(value)
            else:
                setattr(self, name, value)
