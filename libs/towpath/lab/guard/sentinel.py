"""A process that does one thing: it starts the guard again when the guard dies while it holds something.

The keeper usually starts a guard, and may be what the guard has paused.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

_LOOK_EVERY_S = 0.05


class Sentinel:
    """A fork of the guard that watches it. Use it in a process with one thread.

    If both are killed at once, what is held waits for the next guard, which the keeper of the scope starts.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """`command` is what starts the guard. It takes the guard's name for itself, or ends."""
        self._command = tuple(command)
        self._pid: int | None = None

    def keep(self) -> None:
        """Make sure that one watches."""
        if self._pid is not None and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return
        self._pid, guard = None, os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _watch(guard, self._command)

    def dismiss(self) -> None:
        """End it: nothing is held any more."""
        if self._pid is not None:
            # No other process can have the pid before it is waited for.
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = None


def _watch(guard: int, command: Sequence[str]) -> NoReturn:
    """Watch the guard in the new process. Never returns into the code of the guard."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # Among them the lock on the guard's name.
        while os.getppid() == guard:
            time.sleep(_LOOK_EVERY_S)
        os.execv(command[0], list(command))
    except BaseException as error:
        print(f"the guard is not watched: {error!r}", file=sys.stderr, flush=True)
    os._exit(0)
