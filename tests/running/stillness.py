"""Hold processes of a mesh up, as a debugger or a swapping machine does."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from towpath.processes import find


@contextlib.contextmanager
def still(run: Path, *processes: str) -> Iterator[None]:
    """Stop processes inside the block, and let them go on after it. `run` has their pid files."""
    records = [find(run, process) for process in processes]
    pids = [record.pid for record in records if record is not None]
    assert len(pids) == len(processes)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
