"""Cut a link, as when a cable is pulled."""

from __future__ import annotations

from towpath.contracts.links import LinkConditions, OneWay
from towpath.contracts.message import Model
from towpath.lab.faults.registry import LinkFault, fault


class CutParameters(Model):
    """The part of the link that is cut."""

    only: OneWay | None = None
    """Null: all of it."""


@fault("cut", CutParameters)
class CutLink(LinkFault):
    """Lets nothing pass, or nothing in one direction, and no one is told. Connections break when it ends."""

    def worsen(self, conditions: LinkConditions) -> LinkConditions:
        """Whatever else is wrong with the link: it is cut. Two directions together are all of it."""
        only = self.parameters.only
        is_whole = only is None or conditions.cut_only not in (None, only)
        return conditions.model_copy(update={"cut": True} if is_whole else {"cut_only": only})
