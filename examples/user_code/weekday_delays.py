"""User code for a `predict` job: how unusual a delay is for its day of the week."""

from __future__ import annotations

from typing import Any


class WeekdayDelays:
    """The usual delay on each day of the week. Each key has an object, which is kept between events."""

    def __init__(self, memory: float) -> None:
        """`memory` is what remains of the usual delay with each departure, between 0 and 1."""
        self.memory = memory
        self.usual: dict[str, float] = {}

    def predict(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return by how much a departure is later than usual."""
        weekday = values["departed_at"].strftime("%A")
        usual = self.usual.get(weekday, values["delay"])
        self.usual[weekday] = self.memory * usual + (1 - self.memory) * values["delay"]
        return {"statistic": values["delay"] - usual, "weekday": weekday, "usual": usual}
