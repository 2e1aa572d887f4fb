"""A process that does one thing: start the guard anew when it dies while it holds something.

Who usually starts a guard may be what the guard has paused.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

_DISMISSED = b"."
_LOOK_EVERY_S = 0.01


class Sentinel:
    """Watches the process that makes it, through a pipe that only this process holds open.

    Forks: use it in a process with one thread. Whoever kills both at once leaves what is held to the next
    guard, which the keeper of the scope starts.
    """

    def __init__(self, command: Sequence[str]) -> None:
        """`command` is what starts the guard; it takes the guard's name for itself, or ends."""
        self._command = tuple(command)
        self._pid: int | None = None
        self._pipe: int | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that watches, if one does."""
        return self._pid

    def keep(self) -> None:
        """Make sure that one watches."""
        if self._pid is not None and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return
        self._close()
        reading, self._pipe = os.pipe()
        guard = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            _watch(reading, guard, self._command)
        os.close(reading)

    def dismiss(self) -> None:
        """Let it end: nothing is held any more."""
        if self._pid is None or self._pipe is None:
            return
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, _DISMISSED)
        self._close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._pid = None

    def _close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _watch(pipe: int, guard: int, command: Sequence[str]) -> NoReturn:
    """What the watching process does; it never returns into the code of the guard."""
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        # Among them the other end of the pipe, and the lock on the guard's name.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, os.sysconf("SC_OPEN_MAX"))
        if os.read(pipe, 1) == b"":
            while os.getppid() == guard:  # It is dying: until it is dead, it has its name.
                time.sleep(_LOOK_EVERY_S)
            os.closerange(3, pipe + 1)
            os.execv(command[0], list(command))
    except BaseException as error:
        print(f"the guard is not watched: {error!r}", file=sys.stderr, flush=True)
    os._exit(0)
