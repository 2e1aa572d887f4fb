"""Take memory of a machine."""

from __future__ import annotations

from random import Random

import psutil
from pydantic import Field

from towpath.contracts.errors import ErrorCode, TowpathError
from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.load.children import LoadChildren
from towpath.lab.faults.registry import HeldFault, Target, fault


class Parameters(Model):
    """How much is taken."""

    megabytes: int = Field(ge=1, le=1_000_000)
    """Of 1,000,000 bytes, all of them touched."""


@fault("memory_load")
class MemoryLoad(HeldFault):
    """Takes memory and gives it back afterwards.

    More than is available is refused. Should memory run out all the same, the system ends this first.
    """

    Parameters = Parameters
    applies_to = frozenset({TargetKind.MACHINE.value})

    def __init__(self, parameters: Parameters, random: Random) -> None:
        super().__init__(parameters, random)
        self._children = LoadChildren("memory", str(parameters.megabytes))

    def hold(self, target: Target) -> None:
        """Take it. Raises `TowpathError` (not_allowed) when there is not so much."""
        available = psutil.virtual_memory().available // 10**6
        if not self._children.running and self.parameters.megabytes > available:
            raise TowpathError(
                ErrorCode.NOT_ALLOWED,
                "the machine has not so much memory left",
                field="megabytes",
                value=self.parameters.megabytes,
                allowed=f"up to {available} now",
            )
        self._children.keep()

    def release(self, target: Target) -> None:
        """Give it back. What an earlier process took went with it."""
        self._children.end()
