"""Keep processors of a machine busy."""

from __future__ import annotations

import os
from random import Random

from pydantic import Field

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.load.children import LoadChildren
from towpath.lab.faults.registry import HeldFault, Target, fault


class Parameters(Model):
    """How much is kept busy."""

    cores: int | None = Field(default=None, ge=1, le=256)
    """How many processors; null: all that there are."""
    percent: float = Field(default=100.0, gt=0, le=100, allow_inf_nan=False)
    """Of each processor's time."""


@fault("cpu_load")
class CpuLoad(HeldFault):
    """Keeps processors busy for a share of the time, with one process each of the usual priority."""

    Parameters = Parameters
    applies_to = frozenset({TargetKind.MACHINE.value})

    def __init__(self, parameters: Parameters, random: Random) -> None:
        super().__init__(parameters, random)
        cores = parameters.cores or os.cpu_count() or 1
        self._children = LoadChildren("cpu", str(parameters.percent), wanted=cores)

    def hold(self, target: Target) -> None:
        """Start what does not run."""
        self._children.keep()

    def release(self, target: Target) -> None:
        """End all. What an earlier process started has died with it."""
        self._children.end()
