"""Cut a link, as when a cable is pulled."""

from __future__ import annotations

from towpath.contracts.links import LinkConditions
from towpath.lab.faults.registry import LinkFault, fault


@fault("cut")
class CutLink(LinkFault):
    """Lets nothing pass in either direction, and no one is told. Connections break when it ends."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Whatever else is wrong with the link: it is cut."""
        return conditions.model_copy(update={"cut": True})
