"""Wrong clocks."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.clock import skew
from towpath.lab.faults.registry import HeldFault, Target, fault


class ClockSkewParameters(Model):
    """By how much."""

    seconds: float = Field(ge=-10 * 365 * 86_400, le=10 * 365 * 86_400, allow_inf_nan=False)
    """Positive: the clock is ahead."""


@fault("clock_skew", ClockSkewParameters)
class ClockSkew(HeldFault):
    """Sets off what a Python process takes for the time: the times in its messages, `time.time` and
    `time.time_ns`.

    `datetime.now` stays right, and so do the times of traces. Timeouts go by another clock. An engine's JVM
    and the servers are not affected: `clock_jump` sets theirs.
    """

    applies_to = frozenset({TargetKind.CLOCK.value})

    def hold(self, target: Target) -> None:
        """In this process, on behalf of the target's name."""
        skew(target.name, self.parameters.seconds)

    def release(self, target: Target) -> None:
        """The clock is right again, as far as this rule goes."""
        skew(target.name, 0.0)
