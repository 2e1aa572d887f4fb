"""Make a machine's disk slow: others' writes wait behind ours."""

from __future__ import annotations

from pydantic import Field

from towpath.contracts.message import Model
from towpath.lab.faults.load_fault import LoadChildren, LoadFault
from towpath.lab.faults.registry import Target, fault


class DiskLoadParameters(Model):
    """The amount that is written."""

    writers: int = Field(default=2, ge=1, le=64)
    """Number of processes that write at the same time."""
    kilobytes: int = Field(default=1_000, ge=1, le=64_000)
    """Written at once and synced to the disk before the next, by each writer; of 1,000 bytes."""
    pause_ms: float = Field(default=0.0, ge=0, le=60_000, allow_inf_nan=False)
    """Between two writes of a writer."""


@fault("disk_load", DiskLoadParameters)
class DiskLoad(LoadFault):
    """Writes to the disk where the scope keeps its data and syncs, again and again.

    What is written has no name and never grows beyond 64 MB a writer: it is gone with its writer.
    """

    def load(self, target: Target) -> LoadChildren:
        """One process for each writer."""
        given = self.parameters
        arguments = (target.directory or ".", str(given.kilobytes), str(given.pause_ms))
        return LoadChildren("disk", *arguments, wanted=given.writers)
