"""Kill a process or a container: nothing of it gets a chance to end in good order."""

from __future__ import annotations

import contextlib

import psutil

from towpath.contracts.faults import TargetKind
from towpath.contracts.message import Model
from towpath.lab.containers import control
from towpath.lab.faults.registry import StrikingFault, Target, fault


class KillParameters(Model):
    """The processes that die."""

    alone: bool = False
    """Only the process itself dies, as when memory is short, and not the rest of an engine's family."""


@fault("kill", KillParameters)
class Kill(StrikingFault):
    """Ends a process at once (SIGKILL), an engine with its whole family, or all of a container. Its
    supervisor restarts a process; a container is restarted if its restart policy has it so after a crash."""

    applies_to = frozenset({TargetKind.PROCESS.value, TargetKind.CONTAINER.value})

    def strike(self, target: Target) -> None:
        """Kill it, the parent of all others first: it must not see them go."""
        if target.kind is TargetKind.CONTAINER:
            if control.kill(target.name):
                self.finish(target)
            return
        for process in target.processes()[: 1 if self.parameters.alone else None]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def finish(self, target: Target) -> None:
        """Start the container. The daemon does not by itself: it takes a kill for a wish of its user's."""
        if target.kind is TargetKind.CONTAINER:
            control.start_if_kept(target.name)
