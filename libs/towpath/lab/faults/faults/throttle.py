"""Throttle a link: little passes per second."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.links import LinkConditions
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class ThrottleParameters(Model):
    """The bandwidth."""

    bytes_per_s: int = Field(gt=0)
    """In each direction."""


@fault("throttle", ThrottleParameters)
class Throttle(LinkFault):
    """Limits the bandwidth of a link."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """The narrowest limit counts."""
        limits = (self.parameters.bytes_per_s, conditions.bandwidth_bytes_per_s)
        narrowest = min(limit for limit in limits if limit is not None)
        return conditions.model_copy(update={"bandwidth_bytes_per_s": narrowest})
