"""Pause a process, a machine or a container: it hangs, and its connections stay open."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import psutil

from towpath.contracts.faults import TargetKind
from towpath.lab.containers import control
from towpath.lab.faults.registry import HeldFault, Target, fault

ROUNDS = 4
"""Looks for what was started while the others were being stopped. After the first, only what is on its
way can still start."""


@fault("pause")
class Pause(HeldFault):
    """Stops a process where it is (SIGSTOP), an engine with its whole family, and lets it go on afterwards.

    Of a machine it stops all processes: the site, or the hub, sleeps.

    A process that renews the rules itself, an agent or the injector, is paused for one lease at a time.
    """

    applies_to = frozenset({TargetKind.PROCESS.value, TargetKind.MACHINE.value, TargetKind.CONTAINER.value})

    def hold(self, target: Target) -> None:
        """Stop what runs. The first process is stopped before the others are looked up again."""
        if target.kind is TargetKind.CONTAINER:
            return control.pause(target.name)
        for _ in range(ROUNDS):
            running = [process for process in target.processes() if not _is_stopped(process)]
            _each(running, psutil.Process.suspend)
            if len(running) == 0:
                return

    def release(self, target: Target) -> None:
        """Let everything go on."""
        if target.kind is TargetKind.CONTAINER:
            return control.resume(target.name)
        # Those that others hang below last: they are to find their family at work.
        _each(reversed(target.processes()), psutil.Process.resume)


def _is_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _each(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            send(process)
