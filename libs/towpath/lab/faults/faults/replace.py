"""Other content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field, model_validator

from towpath.contracts.message import Model
from towpath.hooks.points import Items
from towpath.lab.faults.registry import PointFault, T, fault


class ReplaceParameters(Model):
    """The new content: either `payload`, or `field` and `value`."""

    payload: str | None = None
    """The whole payload, as text."""
    field: str | None = Field(default=None, min_length=1)
    """A field, or `outer.inner`. One that is missing is added. Payloads that are no JSON object stay."""
    value: Any = None
    """The field's new value."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.payload is None) == (self.field is None):
            raise ValueError("needs either payload, or field and value")
        return self


@fault("replace", ReplaceParameters)
class Replace(PointFault):
    """Gives what it hits another payload, or one field of its JSON object another value."""

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """All items, the hits with another payload."""
        changed = list(items)
        for place in hits:
            payload = self._replaced(access.payload(items[place]))
            if payload is not None:
                changed[place] = access.with_payload(items[place], payload)
        return changed

    def _replaced(self, payload: bytes) -> bytes | None:
        if self.parameters.payload is not None:
            return self.parameters.payload.encode()
        try:
            content = json.loads(payload)
        except ValueError:
            return None
        *outer, last = self.parameters.field.split(".")
        inner = content
        for name in outer:
            inner = inner.get(name) if isinstance(inner, dict) else None
        if not isinstance(inner, dict):
            return None
        inner[last] = self.parameters.value
        return json.dumps(content, separators=(",", ":")).encode()
