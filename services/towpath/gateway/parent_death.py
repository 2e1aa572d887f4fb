"""Let a process end with the one that started it, whatever that dies of."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
"""Option of Linux's `prctl`: the signal that a process gets when its parent dies."""


def end_with_parent() -> None:
    """Let the kernel kill this process when its parent dies. The parent alone heeds Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
