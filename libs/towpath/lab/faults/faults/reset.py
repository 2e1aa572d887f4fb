"""Reset the connections of a link again and again."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.links import LONGEST_S, SHORTEST_RESET_S, LinkConditions
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class ResetParameters(Model):
    """The interval."""

    every_s: float = Field(ge=SHORTEST_RESET_S, le=LONGEST_S, allow_inf_nan=False)
    """Between two resets."""


@fault("reset", ResetParameters)
class Reset(LinkFault):
    """Breaks all connections of a link at intervals; new ones work until the next reset."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """The shortest interval counts."""
        intervals = (self.parameters.every_s, conditions.reset_every_s)
        return conditions.model_copy(
            update={"reset_every_s": min(every for every in intervals if every is not None)}
        )
