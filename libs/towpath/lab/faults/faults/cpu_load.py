"""Keep processors of a machine busy."""

from __future__ import annotations

import os

from pydantic import Field

from towpath.contracts.message import Model
from towpath.lab.faults.load_fault import LoadChildren, LoadFault
from towpath.lab.faults.registry import Target, fault


class CpuLoadParameters(Model):
    """The share that is kept busy."""

    cores: int | None = Field(default=None, ge=1, le=256)
    """Number of processors; null: all that there are."""
    percent: float = Field(default=100.0, gt=0, le=100, allow_inf_nan=False)
    """Of each processor's time."""


@fault("cpu_load", CpuLoadParameters)
class CpuLoad(LoadFault):
    """Keeps processors busy for a share of the time, with one process each of the usual priority."""

    def load(self, target: Target) -> LoadChildren:
        """One process for each processor."""
        cores = self.parameters.cores or os.cpu_count() or 1
        return LoadChildren("cpu", str(self.parameters.percent), wanted=cores)
