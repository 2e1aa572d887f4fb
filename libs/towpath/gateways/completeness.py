"""The receiver's account of what gateways sent: counts each result once and names the gaps. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from towpath.number_set import NumberSet

DEVICE, LOG, SEQUENCE, DROPPED = "device", "log", "sequence", "dropped"
"""Fields that a gateway adds to each result."""


@dataclass
class _Received:
    numbers: NumberSet = field(default_factory=NumberSet)
    highest: int = 0
    dropped: int = 0
    repeats: int = 0


class Completeness:
    """Numbers that have come from each log of each gateway."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], _Received] = {}

    def take(self, message: dict[str, Any]) -> bool:
        """Count a message. Return False if it came before."""
        received = self._logs.setdefault((message[DEVICE], message[LOG]), _Received())
        number = int(message[SEQUENCE])
        received.dropped = max(received.dropped, int(message[DROPPED]))
        if number in received.numbers:
            received.repeats += 1
            return False
        received.numbers.add(number)
        received.highest = max(received.highest, number)
        return True

    def gaps(self) -> dict[str, list[tuple[int, int]]]:
        """Return the missing ranges of each gateway that has some, up to the highest number that came."""
        found: dict[str, list[tuple[int, int]]] = {}
        for (device, _), received in self._logs.items():
            if missing := received.numbers.missing(1, received.highest):
                found.setdefault(device, []).extend(missing)
        return found

    def dropped(self) -> dict[str, int]:
        """Return how many results each gateway says it has dropped. Larger gaps are still on their way."""
        found: dict[str, int] = {}
        for (device, _), received in self._logs.items():
            found[device] = found.get(device, 0) + received.dropped
        return found

    def repeats(self) -> int:
        """Return how many messages came again."""
        return sum(received.repeats for received in self._logs.values())
