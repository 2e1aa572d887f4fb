"""Clocks of machines that are set while everything runs."""

from __future__ import annotations

import contextlib

from pydantic import Field

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.process_clock import Offsets, set_off
from towpath.lab.faults.registry import HeldFault, Target, fault


class ClockJumpParameters(Model):
    """By how much."""

    seconds: int = Field(ge=-60 * 365 * 86_400, le=60 * 365 * 86_400)
    """Positive: the clock is ahead."""


@fault("clock_jump", ClockJumpParameters)
class ClockJump(HeldFault):
    """Sets the clock of a process off, whatever it is written in: a server, an agent, an engine with its
    whole family. Its timeouts go by another clock.

    On x86-64, and where the user may debug the process: as root, or with `kernel.yama.ptrace_scope=0`. For
    Python processes `clock_skew` needs neither.
    """

    applies_to = frozenset({TargetKind.PROCESS.value})

    def hold(self, target: Target) -> None:
        """Set it, also that of a process that was restarted."""
        self._set(target, Offsets(self.parameters.seconds))

    def release(self, target: Target) -> None:
        """The clock is right again."""
        self._set(target, Offsets())

    def _set(self, target: Target, offsets: Offsets) -> None:
        for process in target.processes():
            with contextlib.suppress(ProcessLookupError):
                set_off(process.pid, offsets)
