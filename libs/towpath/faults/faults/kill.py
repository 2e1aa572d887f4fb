"""Kill a process or a container: nothing of it gets a chance to end in good order."""

from __future__ import annotations

import contextlib

import psutil

from towpath.containers import control
from towpath.contracts.faults import TargetKind
from towpath.faults.registry import StrikingFault, Target, fault


@fault("kill")
class Kill(StrikingFault):
    """Ends a process at once (SIGKILL), an engine with its whole family. Who keeps it starts it anew."""

    applies_to = frozenset({TargetKind.PROCESS.value, TargetKind.CONTAINER.value})

    def strike(self, target: Target) -> None:
        """Kill it, the process first that the others hang below: it shall not see them go."""
        if target.kind is TargetKind.CONTAINER:
            return control.kill(target.name)
        for process in target.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
