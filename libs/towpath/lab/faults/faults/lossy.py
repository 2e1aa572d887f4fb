"""Make a link lossy: some of what passes has to be sent again."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.links import DEFAULT_RESEND_MS, LONGEST_DELAY_MS, LinkConditions
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class LossyParameters(Model):
    """The share that is lost."""

    percent: float = Field(gt=0, le=100, allow_inf_nan=False)
    """Of packets (of 1,460 bytes) are lost, each time they are sent."""
    resend_ms: float = Field(default=DEFAULT_RESEND_MS, gt=0, le=LONGEST_DELAY_MS, allow_inf_nan=False)
    """Time until a lost packet is sent again; twice as long the next time, as TCP does."""


@fault("lossy", LossyParameters)
class Lossy(LinkFault):
    """Loses packets of a link. TCP sends them again, so loss is felt as delay of all that comes after."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Losses of several rules are independent of each other; the longer wait counts."""
        given = self.parameters
        kept = (1 - conditions.loss_percent / 100) * (1 - given.percent / 100)
        resend_ms = max(given.resend_ms, conditions.resend_ms if conditions.loss_percent else 0)
        return conditions.model_copy(update={"loss_percent": 100 * (1 - kept), "resend_ms": resend_ms})
