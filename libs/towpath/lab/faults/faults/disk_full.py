"""Fill the disk, for one process alone."""

from __future__ import annotations

import contextlib

import psutil

from towpath.contracts.faults import TargetKind
from towpath.lab.faults.registry import HeldFault, Target, fault


@fault("disk_full")
class DiskFull(HeldFault):
    """Lets every write of a process to a file fail, as on a disk without space.

    By the limit on the size of files that every process has (RLIMIT_FSIZE), set to nothing: it needs no
    rights, and hits one process instead of the whole machine. Agent, engine and nats-server get an error
    from every write (their runtimes ignore the signal that comes with it); nats-server then behaves as on a
    disk without space. Redis dies of the signal, as often as it starts meanwhile; one that syncs always
    would end itself on a full disk, too.
    """

    applies_to = frozenset({TargetKind.DISK.value})

    def hold(self, target: Target) -> None:
        """Limit what is not limited yet: also a process that was restarted."""
        for process in target.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
                if soft != 0:
                    process.rlimit(psutil.RLIMIT_FSIZE, (0, hard))

    def release(self, target: Target) -> None:
        """Lift the limit as far as the process itself may, also from what it has started meanwhile:
        children inherit limits."""
        for process in target.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                _lift([process, *process.children(recursive=True)])


def _lift(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
            if soft == 0:
                process.rlimit(psutil.RLIMIT_FSIZE, (hard, hard))
