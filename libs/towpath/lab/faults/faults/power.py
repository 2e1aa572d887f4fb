"""Cut the power of a machine, and switch it on again."""

from __future__ import annotations

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.faults.registry import StrikingFault, Target, fault


class PowerParameters(Model):
    """The state in which the machine comes back."""

    lose_disks: bool = False
    """Everything that it stored is gone, too: it comes back with the configuration of its servers alone."""


@fault("power", PowerParameters)
class Power(StrikingFault):
    """Cuts the power of a site, or of the hub with Redis and all services, and switches it on again.

    All processes die at once (SIGKILL), and their supervisor restarts them as after a boot. Where what the
    machine stores is on a disk of `towpath.lab.power`, what was not synced is gone. On any other disk the
    files stay as the processes have written them. Containers of the machine live on.
    """

    applies_to = frozenset({TargetKind.MACHINE.value})

    def strike(self, target: Target) -> None:
        """Cut it. Returns when everything is gone and may start again."""
        if target.cut_power is not None:
            target.cut_power(self.parameters.lose_disks)

    def finish(self, target: Target) -> None:
        """Let the supervisor go on: it was stopped meanwhile."""
        if target.let_start is not None:
            target.let_start()
