"""Delays."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.message import Model
from towpath.lab.faults.registry import PointFault, fault


class DelayParameters(Model):
    """The length of a delay."""

    ms: float = Field(ge=0, le=600_000, allow_inf_nan=False)
    """Milliseconds."""
    jitter_ms: float = Field(default=0.0, ge=0, le=600_000, allow_inf_nan=False)
    """Up to so many milliseconds more, equally distributed."""


@fault("delay", DelayParameters)
class Delay(PointFault):
    """Holds up what passes. Of a bundle with several hits: all of it, once for each hit."""

    def wait_s(self, hits: int) -> float:
        """The time of each hit, added up."""
        return (
            sum(self._once_s() for _ in range(hits)) if self.parameters.jitter_ms else hits * self._once_s()
        )

    def _once_s(self) -> float:
        return (self.parameters.ms + self.random.uniform(0.0, self.parameters.jitter_ms)) / 1000
