"""A bound on how long code of others may run in a thread of ours."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

AGAIN_S = 1.0
"""Between interruptions: code may catch one."""

Made = TypeVar("Made")


class _Interrupted(BaseException):
    """Raised in the midst of the code. No `Exception`, which much code catches and goes on."""


def within(limit_s: float, call: Callable[[], Made]) -> Made:
    """What `call` returns. Raises `TimeoutError` after `limit_s` seconds, in the midst of it.

    Python code is interrupted between any two of its instructions; a call into C, such as a long sleep,
    only when it returns.
    """
    thread = ctypes.c_ulong(threading.get_ident())
    interrupt = ctypes.pythonapi.PyThreadState_SetAsyncExc
    over, settling = threading.Event(), threading.Lock()

    def watch() -> None:
        pause_s = limit_s
        while not over.wait(pause_s):
            with settling:
                if not over.is_set():
                    interrupt(thread, ctypes.py_object(_Interrupted))
            pause_s = AGAIN_S

    def settle() -> None:
        """Afterwards nothing interrupts what comes next in this thread."""
        with settling:
            interrupt(thread, None)  # One that is on its way is called back.
            over.set()

    watching = threading.Thread(target=watch, name="time-limit", daemon=True)
    try:
        try:
            watching.start()
            return call()
        finally:
            settle()
    except _Interrupted:
        settle()  # Perhaps it came in the midst of the first time.
        raise TimeoutError(f"did not return within {limit_s:g} s") from None
