"""Slice what passes a link into small pieces."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.links import LONGEST_DELAY_MS, LinkConditions
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class SliceParameters(Model):
    """Size and distance of slices."""

    bytes: int = Field(gt=0, le=65_536)
    """Of a slice, at most."""
    delay_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Between two slices of a connection."""


@fault("slice", SliceParameters)
class Slice(LinkFault):
    """Delivers what passes a link in small slices: a message comes in many reads."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """The smallest slices and the longest pause between them count."""
        given = self.parameters
        sizes = (given.bytes, conditions.slice_bytes)
        return conditions.model_copy(
            update={
                "slice_bytes": min(size for size in sizes if size is not None),
                "slice_delay_ms": max(given.delay_ms, conditions.slice_delay_ms),
            }
        )
