"""Take memory of a machine."""

from __future__ import annotations

import psutil
from pydantic import Field

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.message import Model
from towpath.lab.faults.load_fault import LoadChildren, LoadFault
from towpath.lab.faults.registry import Target, fault


class MemoryLoadParameters(Model):
    """The amount that is taken."""

    megabytes: int = Field(ge=1, le=1_000_000)
    """Of 1,000,000 bytes, all of them touched."""


@fault("memory_load", MemoryLoadParameters)
class MemoryLoad(LoadFault):
    """Takes memory and gives it back afterwards.

    More than is available is refused. Should memory run out all the same, the system ends this first.
    """

    def load(self, target: Target) -> LoadChildren:
        """One process that has it all."""
        return LoadChildren("memory", str(self.parameters.megabytes))

    def hold(self, target: Target) -> None:
        """Take it. Raises `TowpathError` (not_allowed) when there is not so much."""
        available = psutil.virtual_memory().available // 10**6
        runs = self.children is not None and self.children.running
        if not runs and self.parameters.megabytes > available:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the machine has not so much memory left",
                field="megabytes",
                value=self.parameters.megabytes,
                allowed=f"up to {available} now",
            )
        super().hold(target)
