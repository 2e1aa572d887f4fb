"""Damage in transit."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from pydantic import Field

from towpath.contracts.message import Model
from towpath.hooks.points import Items
from towpath.lab.faults.registry import PointFault, T, fault


class Damage(StrEnum):
    """Kind of damage to the bytes."""

    BIT_FLIP = "bit_flip"
    TRUNCATE = "truncate"


class CorruptParameters(Model):
    """Which damage."""

    how: Damage = Damage.BIT_FLIP
    """`bit_flip`: bits anywhere turn over; `truncate`: bytes are missing at the end."""
    count: int = Field(default=1, ge=1, le=1_000_000)
    """Number of bits, or of bytes. No bit is turned twice."""


@fault("corrupt", CorruptParameters)
class Corrupt(PointFault):
    """Damages the payload of what it hits; an empty one stays as it is."""

    def change(self, items: Sequence[T], hits: Sequence[int], access: Items[T]) -> Sequence[T]:
        """All items, the hits with another payload."""
        changed = list(items)
        for place in hits:
            payload = access.payload(items[place])
            if payload:
                changed[place] = access.with_payload(items[place], self._damaged(payload))
        return changed

    def _damaged(self, payload: bytes) -> bytes:
        count = self.parameters.count
        if self.parameters.how is Damage.TRUNCATE:
            return payload[: max(len(payload) - count, 0)]
        damaged = bytearray(payload)
        bits = 8 * len(damaged)
        for bit in self.random.sample(range(bits), min(count, bits)):
            damaged[bit // 8] ^= 1 << bit % 8
        return bytes(damaged)
