"""Restart a process or a container: it ends in good order, and its supervisor restarts it."""

from __future__ import annotations

from towpath.contracts.faults import TargetKind
from towpath.lab.containers import control
from towpath.lab.faults.registry import StrikingFault, Target, fault


@fault("restart")
class Restart(StrikingFault):
    """Asks a process to end (SIGTERM); its supervisor restarts it."""

    applies_to = frozenset({TargetKind.PROCESS.value, TargetKind.CONTAINER.value})

    def strike(self, target: Target) -> None:
        """Send SIGTERM and return at once."""
        if target.kind is TargetKind.CONTAINER:
            control.restart(target.name)
        elif target.restart is not None:
            target.restart()
