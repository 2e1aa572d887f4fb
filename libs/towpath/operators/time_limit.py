"""Run user code with a time limit, in the thread that asks for it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import TypeVar

AGAIN_S = 1.0
"""Between two interruptions. Code may catch the first one."""

Made = TypeVar("Made")


class _Interrupted(BaseException):
    """Interrupts the code. It is no `Exception`, because much code catches those and goes on."""


def within(limit_s: float, call: Callable[[], Made]) -> Made:
    """The result of `call`. Interrupts it after `limit_s` seconds, and raises `TimeoutError`.

    Python code is interrupted between any two of its instructions. A call into C, such as a long sleep, is
    interrupted only when it returns.
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
        """Make sure that nothing interrupts what this thread does next."""
        with settling:
            interrupt(thread, None)  # Takes back an interruption that is on its way.
            over.set()

    watching = threading.Thread(target=watch, name="time-limit", daemon=True)
    try:
        try:
            watching.start()
            return call()
        finally:
            settle()
    except _Interrupted:
        settle()  # The interruption may have come during the first call.
        raise TimeoutError(f"did not return within {limit_s:g} s") from None
