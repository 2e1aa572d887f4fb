"""What one subscriber received so far: which copies may come again, and what must not fall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from towpath.checker.observation import Observation


class Subscriber:
    """What one subscriber received so far, as far as redelivery and the order of the log are concerned."""

    __slots__ = ("connection", "connection_began", "epochs", "latest", "offset", "received")

    def __init__(self) -> None:
        self.received = 0
        self.connection = 0
        self.connection_began = 0
        self.latest: dict[bytes, int] = {}
        self.epochs: dict[str, int] = {}
        """Job → the highest epoch."""
        self.offset: tuple[int, bytes] | None = None
        """The highest, and what was there."""

    def redelivers(self, observation: Observation, span: int) -> bool:
        """Whether this is a copy that MQTT allows; also remembers it as the latest copy."""
        if observation.connection != self.connection:
            self.connection, self.connection_began = observation.connection, self.received
        previous = self.latest.get(observation.payload)
        self.latest[observation.payload] = self.received
        self.received += 1
        if previous is None:
            return False
        return observation.dup or 0 < self.connection_began - previous <= span

    def settled(self, span: int) -> bool:
        """Whether the latest message can be none that the broker brought late."""
        return self.connection_began == 0 or self.received - 1 - self.connection_began >= span

    def fallen_epoch(self, body: Mapping[str, Any]) -> int | None:
        """The later epoch that came before, if there was one."""
        job, epoch = body.get("job"), body.get("epoch")
        if not isinstance(job, str) or not isinstance(epoch, int):
            return None
        highest = self.epochs[job] = max(epoch, self.epochs.get(job, epoch))
        return highest if epoch < highest else None

    def fallen_offset(self, observation: Observation) -> bool:
        """Whether the log was read backwards, or has changed."""
        if observation.offset is None:
            return False
        here = (observation.offset, observation.payload)
        highest, held = self.offset or here
        if here[0] >= highest:
            self.offset = here
        return here[0] < highest or (here[0] == highest and here[1] != held)
