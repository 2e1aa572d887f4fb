"""Make a link slow: everything travels longer."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.links import LONGEST_DELAY_MS, LinkConditions
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class SlowParameters(Model):
    """The delay."""

    delay_ms: float = Field(gt=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Delay in one direction: a round trip takes twice as long."""
    jitter_ms: float = Field(default=0.0, ge=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """The delay varies evenly by as much, up and down. The order is kept."""


@fault("slow", SlowParameters)
class Slow(LinkFault):
    """Delays everything that passes a link."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Delays of several rules add up."""
        given = self.parameters
        return conditions.model_copy(
            update={
                "delay_ms": min(LONGEST_DELAY_MS, conditions.delay_ms + given.delay_ms),
                "jitter_ms": min(LONGEST_DELAY_MS, conditions.jitter_ms + given.jitter_ms),
            }
        )
