"""The conditions of a link as they are kept on disk: with the moment at which they end."""

from __future__ import annotations

from datetime import datetime

from towpath.contracts.links import LinkConditions
from towpath.contracts.message import Model


class RecordedConditions(Model):
    """The conditions of one link, and when they end by themselves."""

    conditions: LinkConditions
    until: datetime | None = None
    """Null: never."""

    def remaining(self, at: datetime) -> LinkConditions:
        """Return what still holds at a moment, for the time that is left."""
        if self.until is None:
            return self.conditions
        left_s = (self.until - at).total_seconds()
        # A clock that was set back must not stretch the time.
        left_s = min(left_s, self.conditions.for_s or left_s)
        return self.conditions.model_copy(update={"for_s": left_s}) if left_s > 0 else LinkConditions()
