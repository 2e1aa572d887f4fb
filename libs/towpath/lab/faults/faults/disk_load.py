"""Make a machine's disk slow: others' writes wait behind ours."""

from __future__ import annotations

from random import Random

from pydantic import Field

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.load.children import LoadChildren
from towpath.lab.faults.registry import HeldFault, Target, fault


class Parameters(Model):
    """How much is written."""

    writers: int = Field(default=2, ge=1, le=64)
    """How many write at the same time."""
    kilobytes: int = Field(default=1_000, ge=1, le=64_000)
    """Written at once and synced to the disk before the next, by each writer; of 1,000 bytes."""
    pause_ms: float = Field(default=0.0, ge=0, le=60_000, allow_inf_nan=False)
    """Between two writes of a writer."""


@fault("disk_load")
class DiskLoad(HeldFault):
    """Writes to the disk where the scope keeps its data and syncs, again and again.

    What is written has no name and never grows beyond 64 MB a writer: it is gone with its writer.
    """

    Parameters = Parameters
    applies_to = frozenset({TargetKind.MACHINE.value})

    def __init__(self, parameters: Parameters, random: Random) -> None:
        super().__init__(parameters, random)
        self._children: LoadChildren | None = None

    def hold(self, target: Target) -> None:
        """Start what does not run."""
        if self._children is None:
            given = self.parameters
            arguments = (target.directory or ".", str(given.kilobytes), str(given.pause_ms))
            self._children = LoadChildren("disk", *arguments, wanted=given.writers)
        self._children.keep()

    def release(self, target: Target) -> None:
        """End all. What an earlier process started has died with it."""
        if self._children is not None:
            self._children.end()
