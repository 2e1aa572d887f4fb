"""Restart a process or a container: it ends in good order, and who keeps it starts it anew."""

from __future__ import annotations

from towpath.contracts.faults import TargetKind
from towpath.lab.containers import control
from towpath.lab.faults.registry import StrikingFault, Target, fault


@fault("restart")
class Restart(StrikingFault):
    """Asks a process to end (SIGTERM); the supervisor that keeps it starts it anew."""

    applies_to = frozenset({TargetKind.PROCESS.value, TargetKind.CONTAINER.value})

    def strike(self, target: Target) -> None:
        """Ask; nobody waits for the end."""
        if target.kind is TargetKind.CONTAINER:
            control.restart(target.name)
        elif target.restart is not None:
            target.restart()
